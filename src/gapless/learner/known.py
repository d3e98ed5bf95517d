"""What the checks of an exercise have in common: it does not depend on the learner's function, and is found out once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..course.evidence import Answer, Plan, Run
from ..course.exercise import Exercise
from ..course.gather import gather
from ..course.stage import LocalStage
from ..course.truth import Truth
from ..measure.device import device as choose_device

# The seed of the checks in a notebook. Grading draws its own.
SEED = 0


@dataclass(frozen=True)
class Found:
    """What can be sent to another process. ``answers``: what is right on the plan's inputs; ``runs``: see :class:`Known`."""

    plan: Plan
    answers: list[Answer]
    runs: dict


@dataclass(frozen=True)
class Known:
    """``runs``: of functions that are not the learner's, for :func:`gather`."""

    exercise: Exercise
    plan: Plan
    truth: Truth
    runs: dict = field(default_factory=dict)

    @classmethod
    def of(cls, exercise: Exercise, device: str) -> Known:
        """Of a notebook's checks on the device of that name. Nothing is found out yet."""
        return cls(exercise, exercise.plan(SEED), Truth(exercise, device))

    def find_out(self) -> Found:
        """All of it, for another process. Raises RuntimeError where a right answer cannot be found out."""
        answers, device = self.truth.answers(self.plan), self.truth.device
        target = choose_device(device)
        gather(self.exercise, LocalStage(_nobodys, target, self.exercise.asked.ask), Plan([], self.plan.trial), target,
               name=device, runs=self.runs)
        for found in self.runs.values():  # each report is kept with its run: to read it off a long trace takes a second
            _ = (found if isinstance(found, Run) else found[0]).report
        return Found(self.plan, answers, self.runs)

    @classmethod
    def by(cls, found: Found, exercise: Exercise, device: str) -> Known:
        """What another process has found out."""
        known = cls(exercise, found.plan, Truth(exercise, device), found.runs)
        known.truth.take(found.plan, found.answers)
        return known


def _nobodys(*args, **options):
    raise NotImplementedError("no learner's function is measured here")
