"""Lesson 10: a program's inputs, as cases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.stage import Given
from ..program import Program

_TRIAL_DECODE_MS = 20.0  # of a trial's few records: at 1 ms each no worker would be worth its start, as it is at full size


def _case(program: Program, rng: np.random.Generator, name: str, size: dict, settings: dict, **options) -> Case:
    inputs = program.inputs(rng, size)
    return Case(name, inputs, {"settings": settings, **options}, on_host=dict.fromkeys(inputs, "pageable"))


def cases_of(program: Program) -> Callable[[int], list[Case]]:
    """``cases(seed)``: the small inputs."""
    def cases(seed: int) -> list[Case]:
        rng = np.random.default_rng(seed)
        return [_case(program, rng, *each) for each in program.small(rng)]

    return cases


def trial_of(program: Program) -> Callable[[np.random.Generator, int], list[Case]]:
    """``cases(rng, count)``: inputs of one shape and with the same settings."""
    def trial(rng: np.random.Generator, count: int) -> list[Case]:
        size, settings = program.trial(rng)
        return [_case(program, rng, "a run", size, settings, decode_ms=_TRIAL_DECODE_MS) for _ in range(count)]

    return trial


def full_of(program: Program) -> Callable[[torch.device], Callable[[], Given]]:
    """``full(device)``: the inputs of the story."""
    def full(device: torch.device) -> Callable[[], Given]:
        size, settings = program.full
        inputs = {name: torch.from_numpy(array)
                  for name, array in program.inputs(np.random.default_rng(0), size).items()}
        return lambda: Given(dict(inputs), {"settings": dict(settings)})

    return full
