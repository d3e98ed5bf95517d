"""Lesson 08: the exercise ``train_epoch``."""
