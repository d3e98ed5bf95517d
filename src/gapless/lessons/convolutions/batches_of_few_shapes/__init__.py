"""Lesson 05: the exercise ``batches_of_few_shapes``."""
