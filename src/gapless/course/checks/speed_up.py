"""The check of a step's time by a share of the speed-up that a model solution reaches."""

from __future__ import annotations

from dataclasses import dataclass

from ..check import Found, Look
from ..evidence import Measured, Run
from .measured import OfMeasurement, judge_time, takes_less


@dataclass(frozen=True)
class SpeedUp(OfMeasurement):
    """At least this share of the model solution's speed-up (:class:`..exercise.Measurement`, ``best``), where no change is a
    share of 0. An exercise may have several, each with a name of its own by its share."""

    at_least: float
    advice: str = "What costs most now? Profile it again."

    @property
    def name(self) -> str:  # type: ignore[override]  # by its share
        """Such as ``speed_up_25``."""
        return f"speed_up_{100 * self.at_least:.0f}"

    def judge_one(self, look: Look, measured: Measured) -> Found:
        """Whether so large a share is reached."""
        most = measured.before.true_ms / measured.best.true_ms
        wanted = 1 + self.at_least * (most - 1)
        outcome, facts = judge_time(look, measured, 1 / wanted, "true_ms", f"{look.exercise.step_capitalised} takes",
                                    self.advice)
        own = measured.before.true_ms / measured.learner.true_ms
        return outcome, (f"{own:.2f}× as fast as the slow program; {wanted:.2f}× is wanted here, the model solution reaches "
                         f"{most:.2f}×. {facts}")

    def figure(self, run: Run, slow: Run) -> tuple[float, str]:
        """Its time."""
        return run.true_ms, f"{run.true_ms:.2f} ms"

    def is_less(self, own: Run, slow: Run, share: float) -> bool:
        """By its time."""
        return takes_less(own, slow, share, "true_ms")
