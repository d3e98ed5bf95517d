"""Lesson 05: the exercise ``without_bias``."""
