"""Lesson 05: the exercise ``largest_batch``."""
