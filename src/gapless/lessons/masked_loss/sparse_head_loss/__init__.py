"""Lesson 02: the exercise ``sparse_head_loss``."""
