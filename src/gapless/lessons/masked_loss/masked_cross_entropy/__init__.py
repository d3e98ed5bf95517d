"""Lesson 02: the exercise ``masked_cross_entropy``."""
