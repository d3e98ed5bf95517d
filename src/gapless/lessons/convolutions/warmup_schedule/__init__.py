"""Lesson 05: the exercise ``warmup_schedule``."""
