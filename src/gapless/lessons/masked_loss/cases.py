"""Lesson 02: the inputs on which answers are compared, small and middling, and those at the article's size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ... import vgpu
from ...course.evidence import Case
from ...course.exercise import Trial
from ...course.variants import CONTIGUOUS
from .stage import BACKGROUND, CLASSES, IGNORE
from .workload import size_for

SHAPES = ((2, 5, 7), (1, 16, 16), (3, 8, 1), (4, 1, 9), (1, 1, 1), (2, 6, 5))
LAYOUTS = (CONTIGUOUS, "transposed", "strided")
MANY = 21  # another number of classes than the course's
MANY_CLASSES = f"labels of {MANY} classes"  # where the logits tell how many there are
# Labels …, in the words of a case's name.
RANDOM, IGNORED, ONE_CLASS, NEARLY, ONE_VALID, ALL_BACKGROUND, NO_BACKGROUND = LABEL_KINDS = (
    "random labels", "all ignored", "one class everywhere", "one pixel of another class",
    "one pixel valid", "background everywhere", "no background")
# Mixed labels that are the same in some way: what two of them look like on two images.
BY_IMAGE, BY_ROW, BY_COLUMN, BALANCED, AND_IGNORED = MIXED_KINDS = (
    "each image of a class of its own", "each row of a class of its own", "each column of a class of its own",
    "labels whose mean is the first label", "one class, and ignored pixels")
# Of many pixels: where a look at some of them, or a count in few bits, does not see that they differ.
LAST_ONE, HALF = "the last pixel of another class", "half of the pixels of another class"


def _random_labels(rng: np.random.Generator, shape, low=IGNORE, high=CLASSES) -> np.ndarray:
    return rng.integers(low, high, size=shape, dtype=np.int64)


def make_labels(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    one = int(rng.integers(0, BACKGROUND))
    if kind in (RANDOM, MANY_CLASSES):
        return _random_labels(rng, shape, high=CLASSES if kind == RANDOM else MANY)
    if kind == NO_BACKGROUND:
        return _random_labels(rng, shape, high=BACKGROUND)
    if kind in MIXED_KINDS:
        return _mixed(rng, shape, kind)
    found = np.full(shape, {IGNORED: IGNORE, ONE_VALID: IGNORE, ALL_BACKGROUND: BACKGROUND}.get(kind, one), dtype=np.int64)
    other = one + 1 if one + 1 < BACKGROUND else one - 1
    if kind in (NEARLY, ONE_VALID):
        found.flat[rng.integers(found.size)] = other
    if kind in (LAST_ONE, HALF):
        found.flat[-1 if kind == LAST_ONE else found.size // 2:] = other
    return found


def _mixed(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    if kind == BALANCED:
        found = np.full(shape, int(rng.integers(2, BACKGROUND - 2)), dtype=np.int64)
        found.flat[1], found.flat[2] = found.flat[0] + 1, found.flat[0] - 1
        return found
    if kind == AND_IGNORED:
        return np.where(rng.random(shape) < 0.3, IGNORE, 0)  # 0 is what `clamp` makes of those
    axis = {BY_IMAGE: 0, BY_ROW: 1, BY_COLUMN: 2}[kind]
    classes = np.arange(shape[axis]) % 2 + int(rng.integers(0, BACKGROUND - 1))
    return np.broadcast_to(classes.reshape([-1 if i == axis else 1 for i in range(3)]), shape).astype(np.int64)


def name_of(shape: tuple[int, ...], kind: str) -> str:
    return f"{kind}, {'×'.join(map(str, shape))}"


_SLOWDOWN = 1000.0  # about the elements at the article's size for each of a trial's


def _trial_shape(rng: np.random.Generator) -> tuple[int, int, int]:
    return int(rng.integers(3, 6)), int(rng.integers(56, 73)), int(rng.integers(56, 73))


def _background_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = _trial_shape(rng)
    return [Case("labels", {"target": _random_labels(rng, shape)}) for _ in range(count)]


def _uniform_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = _trial_shape(rng)

    def labels() -> np.ndarray:
        found = _random_labels(rng, shape, high=BACKGROUND)
        return np.full_like(found, found.flat[0]) if rng.random() < 1 / 3 else found

    return [Case("labels", {"loss": np.array(rng.uniform(0.5, 3.0), dtype=np.float32), "target": labels()},
                 needs_grad=("loss",)) for _ in range(count)]


def _cross_entropy_trial(rng: np.random.Generator, count: int) -> list[Case]:
    batch, *plane = _trial_shape(rng)
    return [Case("labels", {"pred": rng.normal(0, 2, size=(batch, CLASSES, *plane)).astype(np.float32),
                            "target": _random_labels(rng, (batch, *plane), high=BACKGROUND)}, needs_grad=("pred",))
            for _ in range(count)]


BACKGROUND_TRIAL, UNIFORM_TRIAL, CROSS_ENTROPY_TRIAL = (
    Trial(cases, _SLOWDOWN) for cases in (_background_trial, _uniform_trial, _cross_entropy_trial))


def on_device(shape, dtype, device: torch.device, values: Callable[[], torch.Tensor]) -> torch.Tensor:
    if device.type == "vgpu" and vgpu.is_shape_only():
        return torch.empty(shape, dtype=dtype, device=device)
    return values().to(device)


def full_labels(device: torch.device) -> torch.Tensor:
    size = size_for(device)
    shape = (size.batch, size.side, size.side)
    return on_device(shape, torch.int64, device, lambda: torch.randint(IGNORE, CLASSES, shape))
