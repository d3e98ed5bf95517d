"""Lesson 07: the exercise ``gelu``."""
