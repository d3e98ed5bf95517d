"""The check of the memory that a step takes at most: what is held at once, and the lines that made it."""

from __future__ import annotations

from ..evidence.held import held_at_peak
from ..evidence.quote import quoted
from .checks import FAIL, PASS
from .evidence import Evidence, Measured
from .exercise import Exercise

_MOST_LINES = 4


def peak_check(exercise: Exercise, evidence: Evidence, measured: Measured, cells: dict[str, str]) -> tuple[str, str]:
    """The outcome of the check ``peak_bytes``, and what to say. ``cells``: name → text of the cells whose lines are
    quoted."""
    slow, own = measured.before.peak_bytes, measured.learner.peak_bytes
    limit = exercise.max_peak_ratio * slow
    facts = (f"{exercise.step_capitalised} takes {size_in_words(own)} of the device's memory at most (slow: "
             f"{size_in_words(slow)}; wanted: at most {size_in_words(limit)}; above what was there before).")
    if own <= limit:
        return PASS, facts
    held = held_at_peak(measured.learner.report.trace)
    lines = [f"- {size_in_words(nbytes)}: " + (f"{line}{quoted(line, cells)}" if line else "no line is known")
             for line, nbytes in held[:_MOST_LINES]]
    rest = sum(nbytes for _, nbytes in held[_MOST_LINES:])
    if rest:
        lines.append(f"- {size_in_words(rest)}: other lines")
    advice = exercise.advice.get("peak_bytes", "Which of it will nobody need again, and who still refers to it?")
    if not lines:
        return FAIL, f"{facts} {advice}"
    return FAIL, "\n".join([f"{facts} At the peak of a step that was profiled it held what these lines made:", *lines,
                            advice])


def size_in_words(nbytes: float) -> str:
    """Such as "12.5 MiB"."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes:.0f} bytes"
