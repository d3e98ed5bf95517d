"""Lesson 04: the exercise ``to_device``."""
