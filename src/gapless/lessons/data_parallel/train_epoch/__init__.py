"""Lesson 09: the exercise ``train_epoch``."""
