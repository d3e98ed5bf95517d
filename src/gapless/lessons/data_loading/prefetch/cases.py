"""Lesson 04: the loaders that `prefetch` is tried on, small and middling, and the one at full size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from .look import AT_FULL_SIZE, BATCHES, OUTPUTS, PATCH, ROWS, SIDE

_TRIAL_SIDE, _CLASSES = 10, 100
_IMAGE = ("images",)
_ALL = ("images", "labels")


def _arrays(rng: np.random.Generator, rows: list[int], shape: tuple[int, ...], dtype: str = "float32") -> dict:
    images = [rng.integers(0, 256, (count, *shape)).astype(dtype) for count in rows]
    return {"images": images, "labels": [rng.integers(0, 10, count) for count in rows]}


def prefetch_cases(seed: int) -> list[Case]:
    """Loaders of all forms and lengths, and the ends at which loops go wrong."""
    rng = np.random.default_rng(seed)

    def case(name: str, count: int, kind: str = "a tuple", pinned: tuple[str, ...] = _ALL, last: int = 4, **options) -> Case:
        rows = [4] * (count - 1) + [last] if count else []
        dtype = "uint8" if rng.integers(2) else "float32"
        inputs = _arrays(rng, rows, (3, int(rng.integers(3, 7)), 5), dtype)
        return Case(name, inputs, {"kind": kind, "pinned": list(pinned), **options})

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    return [
        case("pairs of images and labels", some(4, 7)),
        case("one tensor a batch, the last one smaller", some(4, 7), "a tensor", last=1),
        case("one batch", 1),
        case("no batch", 0),
        case("a dict with texts, the labels not pinned", some(3, 6), "a dict", _IMAGE),
        case("lists, tuples and numbers in a dict", some(3, 6), "nested"),
        case("nothing is pinned", some(3, 6), pinned=()),
        case("the loader raises after some batches", some(2, 5), raises=f"0-{some(10, 99)}.jpg is damaged"),
        case("the loader raises at once", 0, raises=f"0-{some(10, 99)}.jpg is damaged"),
        case("the loop stops early", 6, stop=some(2, 4)),
        case("an endless loader of the same dicts", 5, "a dict", endless=True, stop=some(6, 9)),
        case("many batches", some(9, 14), "a tensor"),
        case("the loop has a stream of its own", some(4, 7), own_stream=True),
    ]


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    side = int(rng.integers(_TRIAL_SIDE - 1, _TRIAL_SIDE + 2))
    found = []
    for number in range(count):
        inputs = _arrays(rng, [ROWS] * BATCHES, (3, side, side), "uint8")
        # So many labels that a copy from memory that is not pinned waits: CUDA takes up to 64 KB aside at once.
        labels = 100 * rng.random((BATCHES, ROWS, _CLASSES), np.float32)
        inputs["labels"] = list(labels.astype(np.int64) if number % 2 else labels)
        inputs["weight"] = rng.normal(size=(PATCH, OUTPUTS)).astype(np.float32)
        found.append(Case("an epoch", inputs, {"kind": ("a tuple", "a dict")[number % 2], "pinned": list(_IMAGE)},
                          late={"images": BATCHES, "labels": BATCHES}))  # the host's batches are made of them
    return found


PREFETCH_TRIAL = Trial(_trial, slowdown=(SIDE / _TRIAL_SIDE) ** 2)


def full_prefetch(device: torch.device) -> Callable[[], Given]:
    """An epoch of large images. On a real GPU too nobody looks at their values."""
    return lambda: Given({}, AT_FULL_SIZE)
