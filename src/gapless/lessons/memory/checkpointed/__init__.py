"""Lesson 08: the exercise ``checkpointed``."""
