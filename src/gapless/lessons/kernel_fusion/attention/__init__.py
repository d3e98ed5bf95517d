"""Lesson 07: the exercise ``attention``."""
