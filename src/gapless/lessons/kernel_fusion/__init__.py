"""Lesson 07: Kernel fusion."""
