"""Lesson 01: the profiler tour."""
