"""Lesson 06: Launch overhead."""
