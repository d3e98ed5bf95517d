"""Lesson 02: the exercise ``zero_if_uniform``."""
