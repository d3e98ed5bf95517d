"""Lesson 03: the exercise ``update_loss``."""
