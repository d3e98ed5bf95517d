"""Lesson 01: the exercise ``top_operators``."""
