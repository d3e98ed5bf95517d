"""Lesson 02: the inputs of ``sparse_head_loss``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from ....course.variants import DTYPES, covering, varied
from ....vgpu import Assumptions
from ..cases import LAYOUTS, on_device
from ..stage import IGNORE


def head_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    kinds = (
        ("fewer valid rows than max_valid", 40, 8, 50, 5, 9, None),
        # Where padding often points to: a row that must not count twice.
        ("fewer valid rows than max_valid, the first and the last among them", 26, 6, 19, 2, 7, [0, 25]),
        ("exactly max_valid rows valid", 33, 12, 31, 7, 7, None),
        ("most rows valid, and fewer than max_valid", 64, 4, 11, 40, 48, None),
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


_HEAD_SLOWDOWN = 300.0  # the head's trial is larger


def _head_trial(rng: np.random.Generator, count: int) -> list[Case]:
    # So many that the valid rows alone give the tiles of a product some waves, on a card with many multiprocessors too.
    valid = int(rng.integers(176, 193))
    rows, width, vocabulary = 16 * valid, int(rng.integers(112, 129)), int(rng.integers(2640, 2881))

    def case() -> Case:
        target = np.full(rows, IGNORE, dtype=np.int64)
        some = int(rng.integers(valid - 4, valid + 1))
        target[rng.choice(rows, size=some, replace=False)] = rng.integers(0, vocabulary, size=some)
        return Case("rows", {"hidden": rng.normal(size=(rows, width)).astype(np.float32),
                             "head": rng.normal(size=(vocabulary, width)).astype(np.float32) / width**0.5, "target": target},
                    {"max_valid": valid}, needs_grad=("hidden", "head"))

    return [case() for _ in range(count)]


HEAD_TRIAL = Trial(_head_trial, _HEAD_SLOWDOWN)


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
    hidden = on_device((size.rows, size.width), torch.float32, device, lambda: torch.randn(size.rows, size.width))
    head = on_device((size.vocabulary, size.width), torch.float32, device,
                      lambda: torch.randn(size.vocabulary, size.width) / size.width**0.5)

    def targets():
        target = torch.full((size.rows,), IGNORE)
        chosen = torch.randperm(size.rows)[: size.valid]
        target[chosen] = torch.randint(0, size.vocabulary, (size.valid,))
        return target

    labels = on_device((size.rows,), torch.int64, device, targets)
    return lambda: Given({"hidden": hidden, "head": head, "target": labels.clone()}, {"max_valid": size.valid},
                         ("hidden", "head"))
