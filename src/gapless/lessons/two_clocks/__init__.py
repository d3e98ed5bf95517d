"""Lesson 00: two clocks."""
