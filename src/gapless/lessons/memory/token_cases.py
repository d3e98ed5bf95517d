"""Lesson 08: the sequences that are learnt in parts, or with the optimizer's step in the backward pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ...course.evidence import Case
from ...course.exercise import Trial
from ...course.stage import Given
from .given_weights import drawn_weights, full_weights
from .token_networks import IGNORED, TokenNetwork


def _batches(rng: np.random.Generator, count: int, rows: int, length: int, words: int, ignored: float) -> dict:
    """``count`` batches of ``rows`` sequences; of each sequence's labels a share of ``ignored`` on average, and nowhere all
    of a batch's, is not to be predicted."""
    tokens = rng.integers(0, words, size=(count, rows, length))
    labels = rng.integers(0, words, size=(count, rows, length))
    shares = np.clip(rng.normal(ignored, 0.3, size=(count, rows, 1)), 0, 1) if ignored else np.zeros((count, rows, 1))
    kept = rng.random(size=labels.shape) >= shares
    kept[:, :1, :1] = True
    return {"tokens": list(tokens), "labels": list(np.where(kept, labels, IGNORED))}


def _given(rng: np.random.Generator, sizes: tuple[int, int, int], batches: dict) -> dict:
    return {"weights": drawn_weights(lambda: TokenNetwork(*sizes), rng), **batches}


def _full(device: torch.device, sizes: tuple[int, int, int], rows: int, length: int, options: dict) -> Callable[[], Given]:
    tokens, labels = (torch.randint(0, sizes[0], (rows, length), device=device) for _ in range(2))
    inputs = {"weights": full_weights(lambda: TokenNetwork(*sizes), device), "tokens": [tokens], "labels": [labels]}
    return lambda: Given(inputs, options | {"sizes": list(sizes)})


# -- a batch in parts --------------------------------------------------------------------------------


def _in_parts(rng: np.random.Generator, name: str, *, parts: int, rows: int, length: int = 5, words: int = 11,
              width: int = 6, layers: int = 2, steps: int = 1, optimizer: str = "sgd", ignored: float = 0.0, frozen=(),
              earlier_gradients: bool = False, bad: bool = False) -> Case:
    sizes = words, width, layers
    return Case(name, _given(rng, sizes, _batches(rng, steps, rows, length, words, ignored)),
                {"parts": parts, "sizes": list(sizes), "optimizer": optimizer, "frozen": list(frozen),
                 "earlier_gradients": earlier_gradients, "bad": bad})


def accumulate_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _in_parts(rng, "eight sequences in four parts", parts=4, rows=8),
        _in_parts(rng, "seven sequences in three parts", parts=3, rows=7),
        _in_parts(rng, "labels that are to be ignored, here more and there fewer", parts=3, rows=9, ignored=0.5),
        _one_part_ignored(rng),
        _in_parts(rng, "the gradients of an earlier step are still there", parts=2, rows=4, earlier_gradients=True),
        _in_parts(rng, "two steps with momentum", parts=3, rows=5, steps=2, optimizer="momentum", ignored=0.3),
        _in_parts(rng, "two steps of Adam", parts=4, rows=int(rng.integers(9, 12)), steps=2, optimizer="adam", ignored=0.3),
        _in_parts(rng, "one part", parts=1, rows=3, ignored=0.3),
        _in_parts(rng, "as many parts as sequences", parts=5, rows=5),
        _in_parts(rng, "more parts than sequences", parts=7, rows=3, ignored=0.3),
        _in_parts(rng, "a frozen layer", parts=2, rows=5, frozen=("layers.0",)),
        _in_parts(rng, "no parts", parts=0, rows=4, bad=True),
        _in_parts(rng, "a negative number of parts", parts=-2, rows=4, bad=True),
        _in_parts(rng, "an empty batch", parts=2, rows=0, bad=True),
    ]


def _one_part_ignored(rng: np.random.Generator) -> Case:
    """Of the second half no label counts."""
    case = _in_parts(rng, "a part in which every label is to be ignored", parts=2, rows=6)
    case.inputs["labels"][0][3:] = IGNORED
    return case


def _accumulate_trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows, words = int(rng.integers(33, 39)), int(rng.integers(480, 520))
    return [_in_parts(rng, "a step", parts=4, rows=rows, length=24, words=words, width=32, ignored=0.3)
            for _ in range(count)]


ACCUMULATE_TRIAL = Trial(_accumulate_trial, slowdown=1000.0)


def full_accumulate(device: torch.device) -> Callable[[], Given]:
    """64 sequences of 256 tokens of 8192 words, in eight parts."""
    return _full(device, (8192, 512, 2), 64, 256, {
        "parts": 8, "optimizer": "sgd", "frozen": [], "earlier_gradients": False, "bad": False})


# -- the optimizer's step within the backward pass ---------------------------------------------------

EVERYTHING = ("embedding", "layers", "norm", "extra", "head")


def _stepwise(rng: np.random.Generator, name: str, *, steps: int = 3, rows: int = 4, length: int = 5, words: int = 11,
              width: int = 6, layers: int = 3, optimizer: str = "momentum", frozen=(), extra=(), lowered: int | None = None,
              max_norm: float | None = None, bad: bool = False) -> Case:
    sizes = words, width, layers
    return Case(name, _given(rng, sizes, _batches(rng, steps, rows, length, words, 0.0)),
                {"sizes": list(sizes), "optimizer": optimizer, "frozen": list(frozen), "extra": list(extra),
                 "lowered": lowered, "max_norm": max_norm, "bad": bad})


def backward_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _stepwise(rng, "a step of SGD", steps=1, optimizer="sgd"),
        _stepwise(rng, "three steps with momentum and weight decay", optimizer="decay"),
        _stepwise(rng, "three steps of Adam", optimizer="adam"),
        _stepwise(rng, "frozen layers", frozen=("layers.0", "norm")),
        _stepwise(rng, "the embedding, which is the head's weight too, is frozen", frozen=("embedding",)),
        _stepwise(rng, "a layer that only the second step uses", steps=4, extra=(1,), optimizer="adam"),
        _stepwise(rng, "the learning rate is lowered after two steps", steps=4, lowered=2),
        _stepwise(rng, "the gradients' common norm is limited", max_norm=0.05),
        _stepwise(rng, "the norm is below the limit", max_norm=1000.0, optimizer="adam"),
        _stepwise(rng, "another size", rows=int(rng.integers(5, 8)), words=13, width=9, layers=1),
        _stepwise(rng, "no parameter learns", frozen=EVERYTHING, bad=True),
    ]


def _backward_trial(rng: np.random.Generator, count: int) -> list[Case]:
    width = int(rng.integers(95, 105))
    return [_stepwise(rng, "a step", steps=1, width=width, words=64, layers=6) for _ in range(count)]


BACKWARD_TRIAL = Trial(_backward_trial)


def full_backward(device: torch.device) -> Callable[[], Given]:
    """A step on 4 × 32 tokens with eight layers of 2048 × 2048 and 1024 words."""
    return _full(device, (1024, 2048, 8), 4, 32, {
        "optimizer": "momentum", "frozen": [], "extra": [], "lowered": None, "max_norm": None, "bad": False})
