"""Lesson 04: the exercise ``best_workers``."""
