"""Lesson 00: the exercise ``train``."""
