"""Lesson 09: Data parallel."""
