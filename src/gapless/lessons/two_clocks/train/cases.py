"""Lesson 00: the inputs of ``train``."""

from __future__ import annotations

import bisect
from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Note, Trial
from ....course.stage import Given
from ....course.variants import varied
from ....vgpu import Card
from ..workload import CHECKED, CHECKED_EVERY, LIMIT, STEP_S, WIDTH, make_network, rows_for, step_s


def _training(rng: np.random.Generator, name: str, steps: int, every: int, limit: float, *, rows: int = 4, width: int = 6,
              scale: float = 1.0) -> Case:
    """A training of ``steps`` batches from weights of its own; now and then a high loss."""
    y = rng.normal(size=(steps, rows, 1)) * np.where(rng.random((steps, 1, 1)) < 0.3, 3.0, 1.0) * scale
    shapes = [tuple(parameter.shape) for parameter in make_network(1, width).parameters()]
    return Case(name, {"weights": [(rng.uniform(-1, 1, shape) / width**0.5).astype(np.float32) for shape in shapes],
                       "x": list(rng.normal(size=(steps, rows, width)).astype(np.float32)), "y": list(y.astype(np.float32))},
                {"every": every, "limit": limit}, most_waits=-(-steps // every) + 1)


def training_cases(seed: int) -> list[Case]:
    """Small trainings with some high losses, and the ends at which loops go wrong. A limit is exact in float32."""
    rng = np.random.default_rng(seed)
    return [
        _training(rng, "a high loss now and then", 23, 5, LIMIT),
        _training(rng, "as many steps as are read at once", 12, 4, LIMIT),
        _training(rng, "fewer steps than are read at once", 3, 10, LIMIT),
        _training(rng, "one step", 1, 1, LIMIT),
        _training(rng, "no loss above the limit", 11, 3, 2.0**20),
        _training(rng, "every loss above the limit", 11, 3, 0.0),
        _training(rng, "large numbers", 17, 4, 2.0**20, scale=10.0),
        _training(rng, "one row a batch, and every is one", 5, 1, LIMIT, rows=1),
        _training(rng, "a limit of two digits", 7, 4, 0.25),
        _with(_training(rng, "an optimizer with momentum", 6, 3, LIMIT), momentum=0.9),
        _at_the_limit(rng),
        _becomes_nan(rng),
        _laid_out(rng),
    ]


def _with(case: Case, **options) -> Case:
    case.options.update(options)
    return case


def _at_the_limit(rng: np.random.Generator) -> Case:
    """The first loss equals the limit to the last digit: a network of zeros answers 0, and 2² is 4."""
    case = _training(rng, "a loss that equals the limit", 7, 3, 4.0)
    case.inputs["weights"] = [np.zeros_like(weight) for weight in case.inputs["weights"]]
    case.inputs["y"][0][:] = 2.0
    return case


def _becomes_nan(rng: np.random.Generator) -> Case:
    case = _training(rng, "a loss that is nan from some step on", 9, 4, LIMIT)
    case.inputs["y"][int(rng.integers(2, 6))][0, 0] = np.nan
    return case


def _laid_out(rng: np.random.Generator) -> Case:
    case = varied(_training(rng, "other strides", 6, 4, LIMIT), layout="transposed")
    del case.layouts["weights"]
    return case


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows, width, every = int(rng.integers(40, 57)), int(rng.integers(56, 73)), int(rng.integers(5, 8))
    # Two steps are left at the end: one wait for both, as for each block.
    return [_training(rng, "a training", 2 * every + 2, every, LIMIT, rows=rows, width=width) for _ in range(count)]


def _slowdown(card: Card) -> float:
    """Such that a training step of the trial keeps the device busy for about as long as one at full size."""
    factors = range(1, 2**17)
    return factors[bisect.bisect_left(factors, STEP_S, key=lambda factor: step_s(card.slowed(factor), 48, 64))]


TRAINING_TRIAL = Trial(_trial, _slowdown)


def full_training(device: torch.device) -> Callable[[], Given]:
    """One call of ``train`` at full size."""
    rows = rows_for(device)
    weights = [torch.randn(tuple(parameter.shape), device=device) / WIDTH**0.5 for parameter in make_network().parameters()]
    x, y = torch.randn(rows, WIDTH, device=device), torch.randn(rows, 1, device=device)
    inputs = {"weights": weights, "x": [x] * CHECKED, "y": [y] * CHECKED}
    return lambda: Given(inputs, {"every": CHECKED_EVERY, "limit": LIMIT})


NO_LINE = "no line"


def see_training(case: Case, answer: dict, notes: list[Note]) -> dict:
    """The answer with the logged ``lines``, and in words which of them came too ``late`` and which too ``early``."""
    late = early = NO_LINE
    every = case.options["every"]
    for number, note in enumerate(notes, start=1):
        steps = note.used.get("x", number)
        if steps - number > 2 * every and late == NO_LINE:
            late = f"line {number} came after step {steps}, with every={every}"
        if number > steps and early == NO_LINE:
            early = f"line {number}, and the network had been called {steps} times"
    return {"lines": [note.text for note in notes], "late": late, "early": early, **answer}
