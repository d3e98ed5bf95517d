"""Lesson 03: the exercise ``evaluate``."""
