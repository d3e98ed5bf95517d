"""Lesson 02: the exercise ``ignore_background``."""
