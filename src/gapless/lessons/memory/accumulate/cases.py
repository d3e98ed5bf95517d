"""Lesson 08: the inputs of ``accumulate``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from ..cases import IGNORED, draw_batches, full, given


def _in_parts(rng: np.random.Generator, name: str, *, parts: int, rows: int, length: int = 5, words: int = 11,
              width: int = 6, layers: int = 2, steps: int = 1, optimizer: str = "sgd", ignored: float = 0.0, frozen=(),
              earlier_gradients: bool = False, bad: bool = False, evaluating: bool = False) -> Case:
    sizes = words, width, layers
    return Case(name, given(rng, sizes, draw_batches(rng, steps, rows, length, words, ignored)),
                {"parts": parts, "sizes": list(sizes), "optimizer": optimizer, "frozen": list(frozen),
                 "earlier_gradients": earlier_gradients, "bad": bad, "evaluating": evaluating})


def accumulate_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _in_parts(rng, "eight sequences in four parts", parts=4, rows=8),
        _in_parts(rng, "seven sequences in three parts", parts=3, rows=7),
        _in_parts(rng, "seven sequences in four parts", parts=4, rows=7),
        _in_parts(rng, "fifteen sequences in eight parts", parts=8, rows=15),
        _in_parts(rng, "ignored labels, more in one part than in another", parts=3, rows=9, ignored=0.5),
        _one_part_ignored(rng),
        _in_parts(rng, "the gradients of an earlier step are still there", parts=2, rows=10, earlier_gradients=True),
        _in_parts(rng, "two steps with momentum", parts=3, rows=5, steps=2, optimizer="momentum", ignored=0.3),
        _in_parts(rng, "two steps of Adam", parts=4, rows=int(rng.integers(9, 12)), steps=2, optimizer="adam", ignored=0.3),
        _in_parts(rng, "one part", parts=1, rows=3, ignored=0.3),
        _in_parts(rng, "as many parts as sequences", parts=5, rows=5),
        _in_parts(rng, "more parts than sequences", parts=7, rows=3, ignored=0.3),
        _in_parts(rng, "a frozen layer", parts=2, rows=5, frozen=("layers.0",)),
        _in_parts(rng, "a network in evaluation mode", parts=2, rows=4, evaluating=True),
        _in_parts(rng, "no parts", parts=0, rows=4, bad=True),
        _in_parts(rng, "a negative number of parts", parts=-2, rows=4, bad=True),
        _in_parts(rng, "an empty batch", parts=2, rows=0, bad=True),
    ]


def _one_part_ignored(rng: np.random.Generator) -> Case:
    """Of the second half no label counts."""
    case = _in_parts(rng, "a part whose labels are all ignored", parts=2, rows=6)
    case.inputs["labels"][0][3:] = IGNORED
    return case


def _accumulate_trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows, words = int(rng.integers(33, 39)), int(rng.integers(480, 520))
    return [_in_parts(rng, "a step", parts=4, rows=rows, length=24, words=words, width=32, ignored=0.3)
            for _ in range(count)]


ACCUMULATE_TRIAL = Trial(_accumulate_trial, slowdown=1000.0)


def full_accumulate(device: torch.device) -> Callable[[], Given]:
    """64 sequences of 256 tokens of 8192 words, in eight parts."""
    return full(device, (8192, 512, 2), 64, 256, {
        "parts": 8, "optimizer": "sgd", "frozen": [], "earlier_gradients": False, "bad": False, "evaluating": False})
