"""Lesson 08: the exercise ``accumulate``."""
