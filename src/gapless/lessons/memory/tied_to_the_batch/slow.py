"""Lesson 08: ``tied_to_the_batch`` as handed out."""

from __future__ import annotations


def tied_to_the_batch(model, rows):
    """The names of the innermost modules, of those that ``model(rows)`` calls, whose output for a sample depends on the
    others."""
    return [name for name, module in model.named_modules() if "Norm" in type(module).__name__]
