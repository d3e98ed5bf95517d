"""Lesson 05: the exercise ``tensor_core_sizes``."""
