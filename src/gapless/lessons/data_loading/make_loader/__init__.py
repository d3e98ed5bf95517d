"""Lesson 04: the exercise ``make_loader``."""
