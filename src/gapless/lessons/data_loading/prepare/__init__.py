"""Lesson 04: the exercise ``prepare``."""
