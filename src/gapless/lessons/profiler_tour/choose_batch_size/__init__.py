"""Lesson 01: the exercise ``choose_batch_size``."""
