"""Operators that are more than "compute, then launch"."""
