"""Lesson 05: the exercise ``train_step``."""

from __future__ import annotations

from ....course.checks import StepTime, Values
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from . import cases, explain, mistakes, slow
from .right import right_train_step
from .stage import ask_train_step

EXERCISE = Exercise(
    name="train_step",
    slow=slow.train_step,
    cases=cases.train_step_cases,
    asked=Asked(ask=ask_train_step),
    right=Right(
        function=right_train_step,
        on_device=True,
        # of half precision: what differs in the order of its operators differs so much
        relative_tolerance=0.02,
        absolute_tolerance=1e-3,
    ),
    # a scaler looks once whether a gradient is infinite
    measurement=Measurement(trial=cases.TRAIN_STEP_TRIAL, full=cases.full_train_step, right_waits=1),
    checks=(Values(4), StepTime(3, at_most=0.85)),
    teaching=Teaching(
        hints=(
            "Which part of the step runs the convolutions and the linear layers, and which part only updates the "
            "weights? The first may compute in half precision. What happens to a gradient of 10⁻⁸ there?",
            "Put `torch.autocast(x.device.type, dtype=dtype)` around the forward pass and the loss. Call "
            "`scaler.scale(loss).backward()` after it, outside. At the end, once: `scaler.step(optimizer)`, "
            "`scaler.update()`. The clipping needs the true gradients, without the scale.",
            "In this order: `zero_grad`. For each micro-batch, the forward pass and the loss in autocast, the loss "
            "divided by their number, then `scaler.scale(loss).backward()`. Then `scaler.unscale_(optimizer)`, "
            "`clip_grad_norm_`, `scaler.step(optimizer)`, `scaler.update()`. A scaler that is switched off passes "
            "everything through.",
        ),
        mistakes=mistakes.TRAIN_STEP_MISTAKES,
        explain=explain.train_step,
    ),
)
