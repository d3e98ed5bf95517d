"""Lesson 05: the exercise ``to_channels_last``."""
