"""Lesson 01: the exercise ``sm_efficiency``."""
