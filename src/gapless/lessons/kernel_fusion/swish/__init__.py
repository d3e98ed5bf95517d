"""Lesson 07: the exercise ``swish``."""
