"""Lesson 06: the exercise ``make_optimizer``."""

from __future__ import annotations

from ....course.checks import Kernels, StepTime, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from . import cases, mistakes, slow
from .stage import ask_make_optimizer

EXERCISE = Exercise(
    name="make_optimizer",
    slow=slow.make_optimizer,
    cases=cases.optimizer_cases,
    asked=Asked(ask=ask_make_optimizer),
    measurement=Measurement(trial=cases.OPTIMIZER_TRIAL, step_is="a step of the GradScaler"),
    checks=(
        Values(2),
        Waits(2, advice={"item": (
                "`GradScaler` reads whether a gradient overflowed, to decide whether to skip the step. A fused "
                "optimizer passes that answer to its kernel, and needs no number. Every real dtype can be fused, not "
                "only float32. GradScaler looks at the optimizer, not at its groups: `AdamW(groups, fused=True)`")}),
        Kernels(1, fewer=6 * cases.FEWEST, advice=(
            "Each group is a list of its own. Are there more groups than settings? `fused=False` means a loop, and so "
            "does `foreach=False`. `fused=True` computes all of AdamW in one kernel for dozens of parameters.")),
        StepTime(1, at_most=0.2),
    ),
    teaching=Teaching(
        hints=(
            "How many groups do two settings need? And why does `scaler.step` wait?",
            "Make two groups, by `parameter.dim()`. `fused=True` replaces AdamW's dozen kernels by one, which also "
            "learns whether a gradient overflowed. Not every dtype can be fused: what does the error say?",
            "`fused = all(parameter.is_floating_point() for parameter in parameters)`, then `torch.optim.AdamW(groups, "
            "lr=1e-3, fused=fused or None)`. None leaves the choice to PyTorch; False would mean the loop. Call "
            "`list(parameters)` first, and leave out a group without parameters.",
        ),
        mistakes=mistakes.OPTIMIZER_MISTAKES,
        explain=mistakes.explain,
    ),
)
