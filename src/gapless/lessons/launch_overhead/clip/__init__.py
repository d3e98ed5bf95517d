"""Lesson 06: the exercise ``clip``."""
