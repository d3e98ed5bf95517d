"""Lesson 03: metric collection."""
