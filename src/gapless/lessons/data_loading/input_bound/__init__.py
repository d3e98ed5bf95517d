"""Lesson 04: the exercise ``input_bound``."""
