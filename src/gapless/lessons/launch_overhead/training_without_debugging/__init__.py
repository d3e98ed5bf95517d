"""Lesson 06: the exercise ``training_without_debugging``."""
