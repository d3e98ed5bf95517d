"""Lesson 00: the exercise ``time_step``."""
