"""Lesson 06: the exercise ``clear_grads``."""
