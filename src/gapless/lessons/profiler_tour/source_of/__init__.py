"""Lesson 01: the exercise ``source_of``."""
