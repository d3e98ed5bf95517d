"""Lesson 05: the exercise ``train_step``."""
