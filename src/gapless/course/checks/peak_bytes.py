"""The check of the memory that a step takes at most: what is held at once, and the lines that made it."""

from __future__ import annotations

from dataclasses import dataclass

from ...evidence.held import held_at_peak
from ...evidence.quote import quoted
from ..check import Found, Look
from ..evidence import Measured, Run
from ..verdicts import FAIL, PASS
from .measured import OfMeasurement, read_back

_MOST_LINES = 4
_LESS = 0.98  # of the slow function's bytes. They do not vary from run to run, as times do.


@dataclass(frozen=True)
class PeakBytes(OfMeasurement):
    """A step takes at most this share of the slow function's memory. ``advice``: what to try where it takes more."""

    at_most: float
    advice: str = "Which of it does nobody need again, and what still refers to it?"

    name = "peak_bytes"
    watches_memory = True
    noise = 1 - _LESS

    def judge_one(self, look: Look, measured: Measured) -> Found:
        """Whether it takes little enough, of the device's own memory."""
        copied = read_back(look.exercise, measured)
        if copied is not None:
            return FAIL, copied
        slow, own = measured.before.peak_bytes, _own_bytes(measured.learner, measured.before)
        limit = self.at_most * slow
        facts = (f"{look.exercise.step_capitalised} takes {size_in_words(own)} of the device's memory at most (slow: "
                 f"{size_in_words(slow)}; target: at most {size_in_words(limit)}; above what was there before).")
        if own <= limit:
            return PASS, facts
        held = held_at_peak(measured.learner.report.trace)
        lines = [f"- {size_in_words(nbytes)}: " + (f"{line}{quoted(line, look.cells)}" if line else "no line is known")
                 for line, nbytes in held[:_MOST_LINES]]
        rest = sum(nbytes for _, nbytes in held[_MOST_LINES:])
        if rest:
            lines.append(f"- {size_in_words(rest)}: other lines")
        if not lines:
            return FAIL, f"{facts} {self.advice}"
        return FAIL, "\n".join([f"{facts} At the peak of a step that was profiled it held what these lines made:", *lines,
                                self.advice])

    def figure(self, run: Run, slow: Run) -> tuple[float, str]:
        """Its peak, and what more is set aside."""
        nbytes = _own_bytes(run, slow)
        return nbytes, size_in_words(nbytes)

    def is_less(self, own: Run, slow: Run, share: float) -> bool:
        """By its peak, which has no noise."""
        return _own_bytes(own, slow) < _LESS * slow.peak_bytes


def _own_bytes(own: Run, slow: Run) -> int:
    """The peak, and what is set aside beside the calls to be used in them."""
    return own.peak_bytes + max(0, own.beside_bytes - slow.beside_bytes)


def size_in_words(nbytes: float) -> str:
    """Such as "12.5 MiB"."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes:.0f} bytes"
