"""Lesson 09: the exercise ``wrap``."""
