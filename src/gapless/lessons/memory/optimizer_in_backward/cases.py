"""Lesson 08: the inputs of ``optimizer_in_backward``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from ..cases import draw_batches, full, given

EVERYTHING = ("embedding", "layers", "norm", "extra", "head")


def _stepwise(rng: np.random.Generator, name: str, *, steps: int = 3, rows: int = 4, length: int = 5, words: int = 11,
              width: int = 6, layers: int = 3, optimizer: str = "momentum", frozen=(), extra=(), lowered: int | None = None,
              max_norm: float | None = None, bad: bool = False, failing: int | None = None) -> Case:
    """``failing``: the number of a step whose backward pass raises an error."""
    sizes = words, width, layers
    return Case(name, given(rng, sizes, draw_batches(rng, steps, rows, length, words, 0.0)),
                {"sizes": list(sizes), "optimizer": optimizer, "frozen": list(frozen), "extra": list(extra),
                 "lowered": lowered, "max_norm": max_norm, "bad": bad, "failing": failing})


def backward_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _stepwise(rng, "a step of SGD", steps=1, optimizer="sgd"),
        _stepwise(rng, "three steps with momentum and weight decay", optimizer="decay"),
        _stepwise(rng, "three steps of Adam", optimizer="adam"),
        _stepwise(rng, "frozen layers", frozen=("layers.0", "norm")),
        _stepwise(rng, "the embedding, which is the head's weight too, is frozen", frozen=("embedding",)),
        _stepwise(rng, "a layer that only the second and the last step use", steps=4, extra=(1, 3), optimizer="adam"),
        _stepwise(rng, "only a norm learns", frozen=("embedding", "layers", "extra")),
        _stepwise(rng, "the learning rate is lowered after two steps", steps=4, lowered=2),
        _stepwise(rng, "the gradients' total norm is limited", max_norm=0.05),
        _stepwise(rng, "the norm is below the limit", max_norm=1000.0, optimizer="adam"),
        _stepwise(rng, "a limit of 0", max_norm=0.0, optimizer="sgd"),
        _stepwise(rng, "another size", rows=int(rng.integers(5, 8)), words=13, width=9, layers=1),
        _stepwise(rng, "an error in the last step's backward pass", failing=2),
        _stepwise(rng, "no parameter learns", frozen=EVERYTHING, bad=True),
    ]


def _backward_trial(rng: np.random.Generator, count: int) -> list[Case]:
    width = int(rng.integers(95, 105))
    return [_stepwise(rng, "a step", steps=1, width=width, words=64, layers=6) for _ in range(count)]


BACKWARD_TRIAL = Trial(_backward_trial)


def full_backward(device: torch.device) -> Callable[[], Given]:
    """A step on 4 × 32 tokens with eight layers of 2048 × 2048 and 1024 words."""
    return full(device, (1024, 2048, 8), 4, 32, {
        "optimizer": "momentum", "frozen": [], "extra": [], "lowered": None, "max_norm": None, "bad": False,
        "failing": None})
