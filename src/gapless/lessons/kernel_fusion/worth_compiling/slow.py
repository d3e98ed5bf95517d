"""Lesson 07: ``worth_compiling`` as handed out."""

from __future__ import annotations


def worth_compiling(eager, compiled, steps):
    """(whether it pays for ``steps`` steps, from which step on it has paid, or None). ``eager``: ms of some
    uncompiled steps; ``compiled``: (ms, whether it compiled in that step) of some steps, from the first."""
    fastest = min(ms for ms, _ in compiled)
    return fastest < min(eager), 1
