"""What is right on an exercise's inputs, and which known mistake a wrong answer shows."""

from __future__ import annotations

import threading

import torch

from .. import vgpu
from ..measure.device import device as choose_device
from ..measure.real_gpu import take_workspaces
from .answers import answer, without_limit
from .causes import MadeAgain
from .evidence import Answer, Case, Evidence, Plan
from .exercise import Exercise
from .plain import difference
from .stage import LocalStage
from .tolerance import NOISE, slack

# Exercises are judged in threads of one process, which has one virtual GPU with one clock, and at most one process group.
ONE_AT_A_TIME = threading.RLock()


class Truth:
    """What is right on an exercise's inputs, on the device of that name: found out once for each, and kept."""

    def __init__(self, exercise: Exercise, device: str):
        self._exercise, self.device = exercise, device
        self._found: dict[int, tuple[Case, Answer]] = {}
        self._slack: dict[int, dict[str, float]] = {}
        self._made: MadeAgain | None = None

    def of(self, case: Case) -> Answer:
        """The expected answer. Raises RuntimeError where it cannot be found out."""
        with ONE_AT_A_TIME:
            if id(case) not in self._found:  # its case is kept, so that no other gets that number
                self._found[id(case)] = case, expected_answer(self._exercise, case, self.device)
            return self._found[id(case)][1]

    def slack(self, case: Case) -> dict[str, float]:
        """Place in an answer to ``case`` → how far it may lie from what is right, because computers round. Empty where what
        is right is known without computing, or tells a time."""
        right = self._exercise.right
        if right.wanted is not None or right.on_device or self._exercise.setting.ranks or self._exercise.setting.valueless:
            return {}
        with ONE_AT_A_TIME:
            if id(case) not in self._slack:
                self._slack[id(case)] = slack(case, self.of(case),
                                              lambda other: _answer(self._exercise, other, self.device))
            return self._slack[id(case)]

    def is_steady(self, case: Case) -> bool:
        """Whether what is right on a device is the same when it is found out again. A real one's times and memory change
        with what others do on it. Raises RuntimeError."""
        right = self._exercise.right
        if not right.on_device or right.wanted is not None:
            return True
        with ONE_AT_A_TIME:
            first, again = self.of(case).plain, expected_answer(self._exercise, case, self.device).plain
        return difference(again, first, right.relative_tolerance + NOISE, right.absolute_tolerance) is None

    def answers(self, plan: Plan) -> list[Answer]:
        """The expected answers to all of a plan's inputs. Raises RuntimeError."""
        return [self.of(case) for case in (*plan.cases, *plan.trial)]

    def take(self, plan: Plan, answers: list[Answer]) -> None:
        """What :meth:`answers` found in another process, with an equal plan."""
        for case, found in zip((*plan.cases, *plan.trial), answers, strict=True):
            self._found[id(case)] = case, found

    def cause(self, plan: Plan, evidence: Evidence, case: Case, found: Answer) -> str | None:
        """What a known mistake says of a wrong answer to ``case``."""
        if not self._exercise.teaching.mistakes or (self._exercise.right.on_device and not evidence.simulated):
            return None  # a real clock never says the same twice
        others = [(other, own) for other, own in zip(plan.cases, evidence.answers)
                  if other is not case and own.unusable is None]
        with ONE_AT_A_TIME:
            target = choose_device(self.device) if self._exercise.right.on_device else torch.device("cpu")
            self._made = self._made or MadeAgain(self._exercise, target, self.of)
            return self._made.cause(case, found, others)


def expected_answer(exercise: Exercise, case: Case, device: str) -> Answer:
    """What is right: the answer of ``right``, else of the slow function, on the CPU or, where the exercise says so, on
    the device of that name; or its facts, found out there. Raises RuntimeError where that function fails."""
    if exercise.right.wanted is not None:
        return Answer(case.name, plain=exercise.right.wanted(case))
    if exercise.right.facts is not None:
        return Answer(case.name, plain=exercise.right.facts(case, choose_device(device)))
    found = _answer(exercise, case, device)
    if found.error is not None or found.unusable is not None:
        raise RuntimeError(f"what is right cannot be found out on the input {case.name!r}: {found.error or found.unusable}")
    return found


def _answer(exercise: Exercise, case: Case, device: str) -> Answer:
    """Of the function that is right."""
    function = exercise.slow if exercise.right.function is None else exercise.right.function
    target = choose_device(device) if exercise.right.on_device else torch.device("cpu")
    take_workspaces(target)
    try:
        with without_limit(target):
            return answer(exercise, LocalStage(function, target, exercise.asked.ask), case, target)
    finally:
        if target.type == "vgpu":
            vgpu.timeline().reset()
