"""Lesson 10: the exercise ``findings``."""
