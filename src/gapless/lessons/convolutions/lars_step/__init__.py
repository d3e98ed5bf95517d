"""Lesson 05: the exercise ``lars_step``."""
