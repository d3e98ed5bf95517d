"""Lesson 06: the exercise ``make_optimizer``."""
