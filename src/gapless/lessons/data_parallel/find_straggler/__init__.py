"""Lesson 09: the exercise ``find_straggler``."""
