"""The check of what goes over the bus."""

from __future__ import annotations

from dataclasses import dataclass

from ...evidence.report import BUS
from ..check import Found, Look
from ..evidence import Measured, Run
from ..verdicts import FAIL, PASS
from .measured import OfMeasurement, megabytes


@dataclass(frozen=True)
class BusBytes(OfMeasurement):
    """At most this share of the slow function's bytes go over the bus."""

    at_most: float = 1.0

    name = "bus_bytes"
    noise = 0.0

    def judge_one(self, look: Look, measured: Measured) -> Found:
        """Whether few enough bytes do."""
        slow, own = measured.before.report.bus_bytes, measured.learner.report.bus_bytes
        limit = self.at_most * slow
        facts = (f"{megabytes(own)} go over the bus in {look.exercise.measurement.step_is} (slow: {megabytes(slow)}; "
                 f"target: at most {megabytes(limit)}).")
        if own <= limit:
            return PASS, facts
        copies = sorted((copy for copy in measured.learner.report.copies if copy.step == 0 and copy.direction in BUS),
                        key=lambda copy: -copy.bytes)[:3]
        largest = ", ".join(f"{copy.direction} {megabytes(copy.bytes)}" for copy in copies)
        return FAIL, (f"{facts} The largest copies: {largest}. Which bytes does the device not have, and which could it "
                      f"make "
                      "itself?")

    def figure(self, run: Run, slow: Run) -> tuple[float, str]:
        """The bytes."""
        return run.report.bus_bytes, megabytes(run.report.bus_bytes)

    def is_less(self, own: Run, slow: Run, share: float) -> bool:
        """By the bytes."""
        return own.report.bus_bytes < share * slow.report.bus_bytes
