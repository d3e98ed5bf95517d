"""Lesson 08: ``tied_to_the_batch`` as handed out."""

from __future__ import annotations


def tied_to_the_batch(model, rows):
    """The names of the innermost modules that ``model(rows)`` calls and whose output for a sample depends on the
    other samples."""
    return [name for name, module in model.named_modules() if "Norm" in type(module).__name__]
