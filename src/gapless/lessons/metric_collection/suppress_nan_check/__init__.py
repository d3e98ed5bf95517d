"""Lesson 03: the exercise ``suppress_nan_check``."""
