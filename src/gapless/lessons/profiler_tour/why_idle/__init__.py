"""Lesson 01: the exercise ``why_idle``."""
