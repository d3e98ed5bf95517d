"""Lesson 02: the inputs on which answers are compared, small and middling, and those at the article's size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ... import vgpu
from ...course.evidence import Case
from ...course.exercise import Trial
from ...course.stage import Given
from ...vgpu import Assumptions
from .functions import BACKGROUND, CLASSES, IGNORE
from .workload import size_for

SHAPES = ((2, 5, 7), (1, 16, 16), (3, 8, 1), (4, 1, 9))


def _random_labels(rng: np.random.Generator, shape, low=IGNORE, high=CLASSES) -> np.ndarray:
    return rng.integers(low, high, size=shape, dtype=np.int64)


def _label_sets(rng: np.random.Generator, high=CLASSES) -> list[tuple[str, np.ndarray]]:
    shape = (2, 6, 5)
    one = int(rng.integers(0, BACKGROUND))
    nearly = np.full(shape, one, dtype=np.int64)
    nearly[-1, -1, -1] = (one + 1) % BACKGROUND
    return [
        *((f"random {'×'.join(map(str, s))}", _random_labels(rng, s, high=high)) for s in SHAPES),
        ("all ignored", np.full(shape, IGNORE, dtype=np.int64)),
        ("one class everywhere", np.full(shape, one, dtype=np.int64)),
        ("one pixel of another class", nearly),
        ("one pixel valid", np.where(np.arange(60).reshape(shape) == rng.integers(60), one, IGNORE)),
    ]


def background_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    background = np.full((2, 3, 4), BACKGROUND, dtype=np.int64)
    return [Case(name, {"target": labels})
            for name, labels in [*_label_sets(rng), ("background everywhere", background)]]


def uniform_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [Case(name, {"loss": np.array(rng.uniform(0.5, 3.0), dtype=np.float32), "target": labels}, needs_grad=("loss",))
            for name, labels in _label_sets(rng, high=BACKGROUND)]


def cross_entropy_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for name, labels in _label_sets(rng, high=BACKGROUND):
        batch, *plane = labels.shape
        pred = rng.normal(0, 2, size=(batch, CLASSES, *plane)).astype(np.float32)
        cases.append(Case(name, {"pred": pred, "target": labels}, needs_grad=("pred",)))
    return cases


def head_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for name, rows, width, vocabulary, valid, max_valid, at in (
        ("fewer valid rows than max_valid", 40, 8, 50, 5, 9, None),
        # Where padding often points to: a row that must not count twice.
        ("fewer valid rows than max_valid, the first and the last among them", 26, 6, 19, 2, 7, [0, 25]),
        ("exactly max_valid rows valid", 33, 12, 31, 7, 7, None),
        ("one row valid", 17, 4, 11, 1, 4, None),
        ("no row valid", 24, 8, 20, 0, 6, None),
        ("every row valid", 9, 5, 13, 9, 9, None),
    ):
        target = np.full(rows, IGNORE, dtype=np.int64)
        chosen = at if at is not None else rng.choice(rows, size=valid, replace=False)
        target[chosen] = rng.integers(0, vocabulary, size=valid)
        cases.append(Case(name, {
            "hidden": rng.normal(size=(rows, width)).astype(np.float32),
            "head": rng.normal(size=(vocabulary, width)).astype(np.float32),
            "target": target,
        }, {"max_valid": max_valid}, needs_grad=("hidden", "head")))
    return cases


# -- of middling size --------------------------------------------------------------------------------

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


def _head_trial(rng: np.random.Generator, count: int) -> list[Case]:
    valid = int(rng.integers(30, 41))
    rows, width, vocabulary = 16 * valid, int(rng.integers(32, 65)), int(rng.integers(400, 601))

    def case() -> Case:
        target = np.full(rows, IGNORE, dtype=np.int64)
        some = int(rng.integers(valid - 4, valid + 1))
        target[rng.choice(rows, size=some, replace=False)] = rng.integers(0, vocabulary, size=some)
        return Case("rows", {"hidden": rng.normal(size=(rows, width)).astype(np.float32),
                             "head": rng.normal(size=(vocabulary, width)).astype(np.float32) / width**0.5, "target": target},
                    {"max_valid": valid}, needs_grad=("hidden", "head"))

    return [case() for _ in range(count)]


BACKGROUND_TRIAL, UNIFORM_TRIAL, CROSS_ENTROPY_TRIAL, HEAD_TRIAL = (
    Trial(cases, _SLOWDOWN) for cases in (_background_trial, _uniform_trial, _cross_entropy_trial, _head_trial))


# -- at the article's size ---------------------------------------------------------------------------


def _on_device(shape, dtype, device: torch.device, values: Callable[[], torch.Tensor]) -> torch.Tensor:
    if device.type == "vgpu" and vgpu.is_shape_only():
        return torch.empty(shape, dtype=dtype, device=device)
    return values().to(device)


def _full_labels(device: torch.device) -> torch.Tensor:
    size = size_for(device)
    shape = (size.batch, size.side, size.side)
    return _on_device(shape, torch.int64, device, lambda: torch.randint(IGNORE, CLASSES, shape))


def full_background(device: torch.device) -> Callable[[], Given]:
    labels = _full_labels(device)
    return lambda: Given({"target": labels.clone()})


def full_uniform(device: torch.device) -> Callable[[], Given]:
    labels, loss = _full_labels(device), torch.ones((), device=device)
    return lambda: Given({"loss": loss, "target": labels.clone()}, needs_grad=("loss",))


def full_cross_entropy(device: torch.device) -> Callable[[], Given]:
    size, labels = size_for(device), _full_labels(device)
    shape = (size.batch, CLASSES, size.side, size.side)
    pred = _on_device(shape, torch.float32, device, lambda: torch.randn(shape))
    return lambda: Given({"pred": pred, "target": labels.clone()}, needs_grad=("pred",))


@dataclass(frozen=True)
class HeadSize:
    """A language model's head: ``rows`` × ``width`` hidden states, ``vocabulary`` × ``width`` weights,
    ``valid`` rows with a target."""

    rows: int = 8192
    width: int = 768
    vocabulary: int = 32_000
    valid: int = 512


HEAD_SIZE = HeadSize()
_VALID = HEAD_SIZE.valid / HEAD_SIZE.rows
HEAD = Assumptions(
    densities={"ne": _VALID, "ge": _VALID, "gt": _VALID, "eq": 1 - _VALID, "lt": 1 - _VALID, "le": 1 - _VALID},
    density=_VALID,
)


def full_head(device: torch.device, size: HeadSize = HEAD_SIZE) -> Callable[[], Given]:
    hidden = _on_device((size.rows, size.width), torch.float32, device, lambda: torch.randn(size.rows, size.width))
    head = _on_device((size.vocabulary, size.width), torch.float32, device,
                      lambda: torch.randn(size.vocabulary, size.width) / size.width**0.5)

    def targets():
        target = torch.full((size.rows,), IGNORE)
        chosen = torch.randperm(size.rows)[: size.valid]
        target[chosen] = torch.randint(0, size.vocabulary, (size.valid,))
        return target

    labels = _on_device((size.rows,), torch.int64, device, targets)
    return lambda: Given({"hidden": hidden, "head": head, "target": labels.clone()}, {"max_valid": size.valid},
                         ("hidden", "head"))
