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
from ...course.variants import CONTIGUOUS, DTYPES, covering, varied
from ...vgpu import Assumptions
from .functions import BACKGROUND, CLASSES, IGNORE
from .workload import size_for

SHAPES = ((2, 5, 7), (1, 16, 16), (3, 8, 1), (4, 1, 9), (1, 1, 1), (2, 6, 5))
LAYOUTS = (CONTIGUOUS, "transposed", "strided")
MANY = 21  # another number of classes than the course's

# Labels …, in the words of a case's name.
RANDOM, MANY_CLASSES, IGNORED, ONE_CLASS, NEARLY, ONE_VALID, ALL_BACKGROUND, NO_BACKGROUND = LABEL_KINDS = (
    "random labels", f"labels of {MANY} classes", "all ignored", "one class everywhere", "one pixel of another class",
    "one pixel valid", "background everywhere", "no background")
# Mixed labels that are the same in some way: what two of them look like on 2×6×5.
BY_IMAGE, BY_ROW, BY_COLUMN, BALANCED, AND_IGNORED = MIXED_KINDS = (
    "each image of a class of its own", "each row of a class of its own", "each column of a class of its own",
    "labels whose mean is the first label", "one class, and ignored pixels")


def _random_labels(rng: np.random.Generator, shape, low=IGNORE, high=CLASSES) -> np.ndarray:
    return rng.integers(low, high, size=shape, dtype=np.int64)


def _labels(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    one = int(rng.integers(0, BACKGROUND))
    if kind in (RANDOM, MANY_CLASSES):
        return _random_labels(rng, shape, high=CLASSES if kind == RANDOM else MANY)
    if kind == NO_BACKGROUND:
        return _random_labels(rng, shape, high=BACKGROUND)
    if kind in MIXED_KINDS:
        return _mixed(rng, shape, kind)
    found = np.full(shape, {IGNORED: IGNORE, ONE_VALID: IGNORE, ALL_BACKGROUND: BACKGROUND}.get(kind, one), dtype=np.int64)
    if kind in (NEARLY, ONE_VALID):
        found.flat[rng.integers(found.size)] = (one + 1) % BACKGROUND
    return found


def _mixed(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    if kind == BALANCED:
        found = np.full(shape, int(rng.integers(2, BACKGROUND - 2)), dtype=np.int64)
        found.flat[1], found.flat[2] = found.flat[0] + 1, found.flat[0] - 1
        return found
    if kind == AND_IGNORED:
        return np.where(rng.random(shape) < 0.3, IGNORE, int(rng.integers(0, BACKGROUND)))
    axis = {BY_IMAGE: 0, BY_ROW: 1, BY_COLUMN: 2}[kind]
    classes = np.arange(shape[axis]) % 2 + int(rng.integers(0, BACKGROUND - 1))
    return np.broadcast_to(classes.reshape([-1 if i == axis else 1 for i in range(3)]), shape).astype(np.int64)


def _name(shape: tuple[int, ...], kind: str) -> str:
    return f"{kind}, {'×'.join(map(str, shape))}"


def background_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [varied(Case(_name(pick["shape"], pick["labels"]), {"target": _labels(rng, pick["shape"], pick["labels"])}),
                   layout=pick["layout"])
            for pick in covering(rng, labels=LABEL_KINDS, shape=SHAPES, layout=LAYOUTS)]


LOSSES = {"an ordinary loss": None, "a loss that is nan": np.nan, "an infinite loss": np.inf, "a loss of 0": 0.0,
          "a negative loss": -1.5}


def uniform_cases(seed: int) -> list[Case]:
    """Every kind of label, and every kind of loss with labels that are all the same."""
    rng = np.random.default_rng(seed)
    picks = covering(rng, labels=LABEL_KINDS, shape=SHAPES, layout=LAYOUTS, dtype=DTYPES)
    picks += [{**pick, "shape": (2, 6, 5)} for pick in covering(rng, labels=MIXED_KINDS, layout=LAYOUTS, dtype=DTYPES)]
    picks += [{**pick, "labels": kind} for kind, pick in zip((ONE_CLASS, IGNORED, RANDOM, ONE_CLASS), covering(
        rng, loss=list(LOSSES)[1:], shape=SHAPES[:4], layout=LAYOUTS, dtype=DTYPES))]
    cases = []
    for pick in picks:
        kind = pick.get("loss", "an ordinary loss")
        loss = np.array(rng.uniform(0.5, 3.0) if LOSSES[kind] is None else LOSSES[kind], dtype=np.float32)
        name = _name(pick["shape"], pick["labels"]) + (f", {kind}" if "loss" in pick else "")
        cases.append(varied(Case(name, {"loss": loss, "target": _labels(rng, pick["shape"], pick["labels"])},
                                 needs_grad=("loss",)), pick["dtype"], pick["layout"]))
    return cases


SCALES = {"": 2.0, ", large logits": 30.0, ", all logits alike": 0.0}


def cross_entropy_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for pick in covering(rng, labels=LABEL_KINDS, shape=SHAPES, layout=(*LAYOUTS, "channels_last"), dtype=DTYPES,
                         scale=list(SCALES)):
        batch, *plane = pick["shape"]
        classes = MANY if pick["labels"] == MANY_CLASSES else CLASSES
        pred = rng.normal(0, 1, size=(batch, classes, *plane)) * SCALES[pick["scale"]]
        case = Case(_name(pick["shape"], pick["labels"]) + pick["scale"],
                    {"pred": pred.astype(np.float32), "target": _labels(rng, pick["shape"], pick["labels"])},
                    needs_grad=("pred",))
        cases.append(varied(case, pick["dtype"], pick["layout"]))
    return cases


def head_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    kinds = (
        ("fewer valid rows than max_valid", 40, 8, 50, 5, 9, None),
        # Where padding often points to: a row that must not count twice.
        ("fewer valid rows than max_valid, the first and the last among them", 26, 6, 19, 2, 7, [0, 25]),
        ("exactly max_valid rows valid", 33, 12, 31, 7, 7, None),
        ("one row valid", 17, 4, 11, 1, 4, None),
        ("no row valid", 24, 8, 20, 0, 6, None),
        ("every row valid", 9, 5, 13, 9, 9, None),
        ("one row in all", 1, 3, 7, 1, 1, None),
        ("fewer valid rows than max_valid, the first among them", 31, 7, 23, 3, 8, [0, 11, 17]),
    )
    cases = []
    for pick in covering(rng, kind=kinds, layout=LAYOUTS, dtype=DTYPES):
        name, rows, width, vocabulary, valid, max_valid, at = pick["kind"]
        target = np.full(rows, IGNORE, dtype=np.int64)
        chosen = at if at is not None else rng.choice(rows, size=valid, replace=False)
        target[chosen] = rng.integers(0, vocabulary, size=valid)
        if valid > 1:
            target[chosen[0]] = 0  # a label like any other
        case = Case(name, {
            "hidden": rng.normal(size=(rows, width)).astype(np.float32),
            "head": rng.normal(size=(vocabulary, width)).astype(np.float32),
            "target": target,
        }, {"max_valid": max_valid}, needs_grad=("hidden", "head"))
        cases.append(varied(case, pick["dtype"], pick["layout"]))
    return cases


# -- of middling size --------------------------------------------------------------------------------

_SLOWDOWN = 1000.0  # about the elements at the article's size for each of a trial's
_HEAD_SLOWDOWN = 100.0  # the head's trial is larger


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
    # So many that the valid rows alone give the tiles of a product some waves, on a card with many multiprocessors too.
    valid = int(rng.integers(160, 177))
    rows, width, vocabulary = 16 * valid, int(rng.integers(208, 241)), int(rng.integers(2400, 2641))

    def case() -> Case:
        target = np.full(rows, IGNORE, dtype=np.int64)
        some = int(rng.integers(valid - 4, valid + 1))
        target[rng.choice(rows, size=some, replace=False)] = rng.integers(0, vocabulary, size=some)
        return Case("rows", {"hidden": rng.normal(size=(rows, width)).astype(np.float32),
                             "head": rng.normal(size=(vocabulary, width)).astype(np.float32) / width**0.5, "target": target},
                    {"max_valid": valid}, needs_grad=("hidden", "head"))

    return [case() for _ in range(count)]


BACKGROUND_TRIAL, UNIFORM_TRIAL, CROSS_ENTROPY_TRIAL = (
    Trial(cases, _SLOWDOWN) for cases in (_background_trial, _uniform_trial, _cross_entropy_trial))
HEAD_TRIAL = Trial(_head_trial, _HEAD_SLOWDOWN)


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
