"""Lesson 05: Convolutions and precision."""
