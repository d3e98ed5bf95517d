"""Lesson 09: the exercise ``main``."""
