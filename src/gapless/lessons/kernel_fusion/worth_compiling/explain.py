"""Lesson 07: why an answer to ``worth_compiling`` is wrong, where no known mistake gives it."""

from __future__ import annotations


def worth(case, found, wanted) -> str | None:
    """What is known of the case."""
    if not isinstance(found, (list, tuple)) or len(found) != 2:
        return "Return two things: whether it pays, and from which step on (or None)."
    if found[0] == wanted[0] and (found[1] is None) != (wanted[1] is None):
        return "It is None if it never pays, and a number of steps if it pays at some time, even if that is too late."
    compiles = sum(compiled for _, compiled in case.options["compiled"])
    return (
        f"Here {compiles} of {len(case.options['compiled'])} steps compiled, and {case.options['steps']:,} are still to "
        "run.")
