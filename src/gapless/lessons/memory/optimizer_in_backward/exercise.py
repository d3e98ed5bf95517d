"""Lesson 08: the exercise ``optimizer_in_backward``."""

from __future__ import annotations

from ....course.checks import PeakBytes, Values
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, explain, slow
from .stage import ask_optimizer_in_backward

EXERCISE = Exercise(
    name="optimizer_in_backward",
    slow=slow.optimizer_in_backward,
    cases=cases.backward_cases,
    asked=Asked(ask=ask_optimizer_in_backward),
    measurement=Measurement(trial=cases.BACKWARD_TRIAL, full=cases.full_backward),
    checks=(
        Values(3),
        PeakBytes(3, at_most=0.7, advice=(
            "All gradients are there at the end of the backward pass. You could use each one, and set it to None, as "
            "soon as it is ready.")),
    ),
    teaching=Teaching(
        hints=(
            "When is a parameter's gradient ready? And does anything need it after the optimizer's step for that "
            "parameter?",
            "`param.register_post_accumulate_grad_hook(hook)` calls `hook(param)` when `param.grad` is complete. An "
            "optimizer for each parameter, created once, can take its step there. How can you handle `max_norm`, which "
            "needs all gradients?",
            "`optimizers = {param: make_optimizer([param]) for param in params}`. The hook does "
            "`optimizers[param].step()` and `param.grad = None`. `train` only calls `loss.backward()`. With `max_norm`, "
            "keep `train` as it is.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.backward,
    ),
)
