"""Lesson 04: the exercise ``prefetch``."""
