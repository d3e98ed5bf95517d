"""Lesson 06: the exercise ``capture_step``."""
