"""Lesson 04: the exercise ``make_loader``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from . import cases, right, slow
from .explain import explain_loader
from .stage import ask_make_loader

EXERCISE = Exercise(
    name="make_loader",
    slow=slow.make_loader,
    cases=cases.loader_cases,
    asked=Asked(ask=ask_make_loader, see=cases.see_loader),
    right=Right(function=right.right_make_loader, on_device=True),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "Two things are wrong with the loader's settings, and one with its samples. Print the noise of the first "
            "pixel of all images of an epoch, sorted: what do you see with two workers, and what with none?",
            "Set `pin_memory` and `persistent_workers` (only with workers). Each worker also has a copy of `dataset.rng` in "
            "the same state. PyTorch calls `worker_init_fn` in each worker when it starts. There `get_worker_info()` gives "
            "the worker's `dataset` and its own `seed`.",
            "In `worker_init_fn`: `info = get_worker_info()`, then `info.dataset.rng = np.random.default_rng(info.seed)`. "
            "The rest: `pin_memory=True, persistent_workers=workers > 0`.",
        ),
        explain=explain_loader,
    ),
)
