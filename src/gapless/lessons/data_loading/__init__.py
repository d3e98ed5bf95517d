"""Lesson 04: Data loading."""
