"""Lesson 10: the capstone."""
