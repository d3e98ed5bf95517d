"""Lesson 01: the exercise ``gpu_utilization``."""
