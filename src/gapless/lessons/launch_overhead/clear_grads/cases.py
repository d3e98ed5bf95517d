"""Lesson 06: the steps in which gradients are cleared."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial

SHAPES = ((4, 3), (5,), (2, 3, 2), (7,), (1,))
MOMENTUM = {"lr": 0.1, "momentum": 0.9}
DECAY = {"lr": 0.1, "weight_decay": 0.2}
ADAM = {"lr": 0.05, "weight_decay": 0.1}


def _steps(rng: np.random.Generator, name: str, used: list[list[int]], shapes=SHAPES, optimizer: str = "SGD",
           settings: dict = MOMENTUM, dtype: str = "float32", earlier: tuple[int, ...] | list[int] = (), **options) -> Case:
    """A step for each list of ``used`` parameters. ``earlier``: those that have a gradient before."""
    inputs = {which: [rng.normal(size=shape).astype(dtype) for shape in shapes] for which in ("weights", "coefficients")}
    inputs["earlier"] = [rng.normal(size=shapes[place]).astype(dtype) for place in earlier]
    return Case(name, inputs, {"used": used, "optimizer": optimizer, "settings": settings, "earlier": list(earlier),
                               "frozen": [], "iterator": False, "held": False} | options)


def _with_zeros(case: Case, place: int) -> Case:
    """The gradient of that parameter before the first step is 0."""
    case.inputs["earlier"][place].fill(0)
    return case


def clearing_cases(seed: int) -> list[Case]:
    """In most of them a parameter gets a gradient in the first step and in no other."""
    rng = np.random.default_rng(seed)
    once = int(rng.integers(0, 4))
    later = [place for place in range(4) if place != once]
    used = [[0, 1, 2, 3], later, later]  # the last parameter is in no loss
    return [
        _steps(rng, "SGD with momentum, a parameter that gets a gradient once", used),
        _steps(rng, "SGD with weight decay, a parameter that gets a gradient once", used, settings=DECAY),
        _steps(rng, "AdamW, a parameter that gets a gradient once", used, optimizer="AdamW", settings=ADAM),
        _steps(rng, "every parameter gets a gradient in every step", [[0, 1, 2, 3, 4]] * 3),
        _steps(rng, "an iterator of parameters", used, iterator=True),
        _with_zeros(_steps(rng, "gradients of an earlier step, one of them 0", [later, later], earlier=[0, 1, 2, 3],
                           settings=DECAY | MOMENTUM), once),
        _steps(rng, "something holds on to the gradients", used, held=True),
        _steps(rng, "a frozen parameter with a gradient of an earlier step", [later, later], earlier=[once],
               frozen=[once]),
        _steps(rng, "float64, no parameter is in the second step's loss", [[0, 1], [], [1]], dtype="float64",
               settings=MOMENTUM | DECAY),
        _steps(rng, "one parameter", [[0], [0]], shapes=((3, 3),)),
        _steps(rng, "no parameters", [[], []], shapes=()),
    ]


FEWEST = 40  # parameters of a trial


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    """Steps of a network, the gradients of the step before still there."""
    number, side = int(rng.integers(FEWEST, FEWEST + 8)), int(rng.integers(5, 10))
    shapes = [(side, side) if place % 2 else (side,) for place in range(number)]
    idle = int(rng.integers(0, number))
    used = [[place for place in range(number) if place != idle]]
    return [_steps(rng, "a step", used, shapes, earlier=list(range(number)), settings=MOMENTUM | DECAY)
            for _ in range(count)]


# It is the host that sets the pace, here as at any size.
CLEARING_TRIAL = Trial(_trial)
