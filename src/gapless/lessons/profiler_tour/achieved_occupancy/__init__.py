"""Lesson 01: the exercise ``achieved_occupancy``."""
