"""Lesson 07: how often the device saw a graph compiled while a function ran, and what it saw run beside, as a part of its
answer. What the function says of it counts for nothing. And what a function may refuse."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import torch

from ...course.exercise import Notes
from .stage import REFUSED

GRAPHS, COMPILATIONS = "graphs", "compilations"
ONE, FEW, NONE = "one", "at most two", "none: it runs uncompiled"
BESIDE = "and work beside them, uncompiled"


def counted_in_words(answer, notes: Notes, name: str, most: int, right: str, beside: int | None):
    """The answer, with that count in words; on the CPU, where what is right is found, it is right. ``beside``: how many
    kernels may be launched beside the graphs, of any kind; None: any but matrix products."""
    if not isinstance(answer, dict):
        return answer
    begun, ended = notes.begun, notes.ended
    count = 1 if ended.compilations is None else ended.compilations - begun.compilations
    kernels, products = (0, 0) if ended.uncompiled is None else map(operator.sub, ended.uncompiled, begun.uncompiled)
    works_beside = products > 0 if beside is None else kernels > beside
    found = right if 1 <= count <= most else str(count) if count else NONE
    return {**answer, name: f"{found}, {BESIDE}" if count and works_beside else found}


def may_refuse(right: dict[str, Callable]) -> Callable:
    """To refuse is as right as to be right. ``right``: a part of the answer → what is right there, from ``x`` and
    ``gradient``."""

    def seen(case, answer, notes: Notes):
        if not isinstance(answer, dict):
            return answer
        x, gradient = (torch.from_numpy(np.asarray(case.inputs[name])) for name in ("x", "gradient"))
        return answer | {name: of(x, gradient).tolist() for name, of in right.items() if answer.get(name) == REFUSED}

    return seen
