"""Lesson 03: the exercise ``step_time_metric``."""
