"""Lesson 08: the exercise ``tied_to_the_batch``."""
