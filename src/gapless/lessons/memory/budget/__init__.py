"""Lesson 08: the exercise ``budget``."""
