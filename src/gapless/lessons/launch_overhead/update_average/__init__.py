"""Lesson 06: the exercise ``update_average``."""
