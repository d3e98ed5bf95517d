"""Lesson 05: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import cases, functions, mistakes, precision_cases, precision_explain, precision_mistakes
from .quick import QUICK
from .right_precision import right_train_step
from .mixed_training import ask_train_step
from .stage import names
from .workload import ELEMENTS, training_step

EXERCISES = (
    Exercise(
        name="scale_down",
        slow=functions.scale_down,
        cases=cases.scaling_cases,
        mistakes=mistakes.SCALING_MISTAKES,
        full=cases.full_scaling,
        trial=cases.SCALING_TRIAL,
        busy_ms=100.0,
        points={"values": 2, "syncs": 2, "host_time": 1},
        max_time_ratio={"host_time": 0.25},
        hints=(
            "Which line needs to know on the host what only the device knows? Who else could decide?",
            "A factor of 1 changes nothing. Which factor do the two cases want, and how does one formula give both?",
            "`(limit / norm).clamp(max=1.0)` is the factor, a tensor: multiply by it, always.",
        ),
    ),
    Exercise(
        name="train_step",
        slow=functions.train_step,
        right=right_train_step,
        truth_on_device=True,
        cases=precision_cases.train_step_cases,
        ask=ask_train_step,
        mistakes=precision_mistakes.TRAIN_STEP_MISTAKES,
        explain=precision_explain.train_step,
        full=precision_cases.full_train_step,
        trial=precision_cases.TRAIN_STEP_TRIAL,
        points={"values": 4, "step_time": 3},
        max_time_ratio={"step_time": 0.85},
        relative_tolerance=0.02,  # of half precision: what differs in the order of its operators differs so much
        absolute_tolerance=1e-3,
        hints=(
            "Which part of the step has the convolutions and the linear layers in it, and which part only looks after the "
            "weights? The first may compute in half precision. And what becomes of a gradient of 10⁻⁸ there?",
            "`torch.autocast(x.device.type, dtype=dtype)` around the forward pass and the loss. "
            "`scaler.scale(loss).backward()` after it, outside. At the end, once: `scaler.step(optimizer)`, "
            "`scaler.update()`. The clipping wants the gradients as they are: without the scale.",
            "In this order: `zero_grad`; for each micro-batch forward pass and loss in autocast, the loss divided by their "
            "number, `scaler.scale(loss).backward()`; then `scaler.unscale_(optimizer)`, `clip_grad_norm_`, "
            "`scaler.step(optimizer)`, `scaler.update()`. A scaler that is switched off passes everything through.",
        ),
    ),
)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The step with the function as handed out, and with the learner's."""
    return [Program(name, lambda device, scale=scale: training_step(scale, device), "–")
            for name, scale in (("as first written", functions.scale_down), ("no `if`", fixed["scale_down"]))]


def size_in_words(device: torch.device) -> str:
    """Such as "an update of 16.8 million numbers"."""
    return f"an update of {ELEMENTS / 1e6:.1f} million numbers"


LESSON = Lesson(
    id="05_convolutions",
    title="Convolutions and precision",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=programs,
    size=size_in_words,
    quick=QUICK,
)
