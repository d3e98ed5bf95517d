"""The check of a step's time."""

from __future__ import annotations

from dataclasses import dataclass

from ..check import Found, Look
from ..evidence import Measured, Run
from .measured import OfMeasurement, judge_time, sync_count, takes_less
from .waits import SEE_WAITS, allowed_waits, are_checked

_OTHER_WORK = "It is not only the waits: the device has to do less work. Which part of it is unnecessary?"
_NO_WAIT = "Waits are not the cause: count the multiplications, and ask which of them are needed."


@dataclass(frozen=True)
class StepTime(OfMeasurement):
    """A step takes at most this share of the slow function's time. ``advice``: what to try where no wait is to blame."""

    at_most: float
    advice: str | None = None

    name = "step_time"

    def judge_one(self, look: Look, measured: Measured) -> Found:
        """Whether a step takes little enough."""
        if are_checked(look.exercise) and sync_count(measured.learner) > allowed_waits(look.exercise):
            next_step = SEE_WAITS
        else:
            next_step = self.advice or (_OTHER_WORK if are_checked(look.exercise) else _NO_WAIT)
        return judge_time(look, measured, self.at_most, "true_ms", f"{look.exercise.step_capitalised} takes", next_step)

    def figure(self, run: Run, slow: Run) -> tuple[float, str]:
        """Its time."""
        return run.true_ms, f"{run.true_ms:.2f} ms"

    def is_less(self, own: Run, slow: Run, share: float) -> bool:
        """By its time."""
        return takes_less(own, slow, share, "true_ms")
