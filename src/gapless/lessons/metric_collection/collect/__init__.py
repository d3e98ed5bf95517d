"""Lesson 03: the exercise ``collect``."""
