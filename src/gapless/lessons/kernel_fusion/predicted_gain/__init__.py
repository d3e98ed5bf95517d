"""Lesson 07: the exercise ``predicted_gain``."""
