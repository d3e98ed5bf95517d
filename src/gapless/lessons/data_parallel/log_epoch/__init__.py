"""Lesson 09: the exercise ``log_epoch``."""
