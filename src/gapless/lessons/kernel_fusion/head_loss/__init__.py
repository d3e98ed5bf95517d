"""Lesson 07: the exercise ``head_loss``."""
