"""What a lesson and an exercise are."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import torch

from .. import vgpu
from ..vgpu import Assumptions
from .evidence import Case


@contextmanager
def full_size(device: torch.device, assumptions: Assumptions) -> Iterator[None]:
    """Where a step of the article's size runs: on the virtual GPU tensors made inside have shapes and no values, on a
    real one nothing changes.

    An error inside lets go of the step's tensors: a notebook keeps the last traceback, and with it gigabytes.
    """
    with vgpu.shape_only(assumptions) if device.type == "vgpu" else nullcontext():
        try:
            yield
        except BaseException as error:
            _let_go(error)
            raise


def _let_go(error: BaseException | None) -> None:
    """Drop what the error and those before it keep alive: the frames' variables, and the tensor without an attribute."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        if isinstance(error, AttributeError):
            error.obj = None
        error = error.__cause__ or error.__context__


@dataclass(frozen=True)
class Exercise:
    """One function that the learner makes fast.

    ``slow`` is the function as first written: it defines what is right, and the time to beat.
    ``cases(seed)`` makes the inputs on which values and gradients are compared; ``step(function,
    device)`` returns a function without arguments that runs one step at full size. ``points``: check
    name (``values``, ``syncs``, ``host_time``, ``step_time``) → points; only those named are checked.
    ``max_time_ratio``: check name → the largest time allowed, as a share of ``slow``'s. ``max_read_back_bytes``: what
    a step may copy back to the host. ``assumptions``: the data-dependent sizes of the full-size inputs, for
    the virtual GPU.
    """

    name: str
    slow: Callable
    cases: Callable[[int], list[Case]]
    step: Callable
    points: dict[str, float]
    hints: tuple[str, str, str]
    max_syncs: int = 0
    max_time_ratio: dict[str, float] = field(default_factory=dict)
    max_read_back_bytes: int = 4096
    assumptions: Assumptions = Assumptions()

    @property
    def max_points(self) -> float:
        return sum(self.points.values())


@dataclass(frozen=True)
class Lesson:
    """``id`` is the folder's and the notebook's name (``02_masked_loss``); ``names`` are what an
    exercise cell finds defined besides builtins."""

    id: str
    title: str
    exercises: dict[str, Exercise]
    names: dict

    @property
    def max_points(self) -> float:
        return sum(exercise.max_points for exercise in self.exercises.values())
