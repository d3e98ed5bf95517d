"""Verdicts: what a check found, in points and in words."""

from __future__ import annotations

from dataclasses import dataclass

PASS = "pass"
FAIL = "fail"
INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Verdict:
    """One check of one exercise.

    ``id`` is ``EXERCISE.CHECK``; ``outcome`` is ``pass``, ``fail`` or ``inconclusive``
    (the measurement was too noisy to decide: run again). ``message`` speaks to the learner:
    what was found, why, and what to try next.
    """

    id: str
    exercise: str
    points: float
    outcome: str
    message: str

    def __post_init__(self):
        if self.outcome not in (PASS, FAIL, INCONCLUSIVE):
            raise ValueError(f"outcome is {self.outcome!r}; use pass, fail or inconclusive")

    @property
    def earned(self) -> float:
        """Points given: all of them for a pass, else none."""
        return self.points if self.outcome == PASS else 0.0

    def to_json(self) -> dict:
        """Plain JSON types, with ``earned`` spelled out."""
        return {
            "id": self.id,
            "exercise": self.exercise,
            "points": self.points,
            "earned": self.earned,
            "outcome": self.outcome,
            "message": self.message,
        }
