"""Lesson 10: the exercise ``train``."""
