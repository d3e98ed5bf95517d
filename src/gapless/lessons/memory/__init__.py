"""Lesson 08: Memory."""
