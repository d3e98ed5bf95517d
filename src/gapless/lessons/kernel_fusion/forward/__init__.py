"""Lesson 07: the exercise ``forward``."""
