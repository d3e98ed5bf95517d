"""Lesson 07: the exercise ``worth_compiling``."""
