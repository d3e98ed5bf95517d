"""Lesson 09: the exercise ``make_batches``."""
