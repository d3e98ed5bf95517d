"""Lesson 07: the exercise ``make_step``."""
