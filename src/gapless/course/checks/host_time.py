"""The check of the host's time: how soon it is free again."""

from __future__ import annotations

from dataclasses import dataclass

from ..check import Found, Look
from ..evidence import Measured, Run
from .measured import OfMeasurement, judge_time, names_of_waits, sync_count, takes_less
from .waits import SEE_WAITS, allowed_waits, are_checked


@dataclass(frozen=True)
class HostTime(OfMeasurement):
    """The host is free again after at most this share of the slow function's time. ``advice``: what to try where no wait is
    to blame."""

    at_most: float
    advice: str = "It does not wait: it calls too much. Could one call do the work of many?"

    name = "host_time"

    def judge_one(self, look: Look, measured: Measured) -> Found:
        """Whether the host is free again soon enough."""
        waits = sync_count(measured.learner) > allowed_waits(look.exercise)
        next_step = (SEE_WAITS if waits and are_checked(look.exercise) else
                     f"It waits for the device, in {names_of_waits(measured.learner.report)}." if waits else self.advice)
        return judge_time(look, measured, self.at_most, "host_ms", "The host is free again after", next_step)

    def figure(self, run: Run, slow: Run) -> tuple[float, str]:
        """The host's time."""
        return run.host_ms, f"{run.host_ms:.2f} ms"

    def is_less(self, own: Run, slow: Run, share: float) -> bool:
        """By its time."""
        return takes_less(own, slow, share, "host_ms")
