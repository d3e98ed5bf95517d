"""Lesson 08: the exercise ``optimizer_in_backward``."""
