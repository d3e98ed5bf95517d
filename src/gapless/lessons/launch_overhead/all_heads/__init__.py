"""Lesson 06: the exercise ``all_heads``."""
