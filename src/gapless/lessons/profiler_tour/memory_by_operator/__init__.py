"""Lesson 01: the exercise ``memory_by_operator``."""
