"""Lesson 08: the exercise ``largest_batch_that_fits``."""
