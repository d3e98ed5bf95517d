"""Lesson 00: the exercise ``predict_step_ms``."""
