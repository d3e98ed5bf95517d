"""Lesson 05: the exercise ``lars_step``."""

from __future__ import annotations

from ....course.checks import StepTime, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from . import cases, mistakes, slow, stage
from .explain import explain_lars

EXERCISE = Exercise(
    name="lars_step",
    slow=slow.lars_step,
    cases=cases.lars_cases,
    asked=Asked(ask=stage.ask_lars_step),
    right=Right(
        # float16's: the order of its operators is free
        relative_tolerance=5e-3,
        absolute_tolerance=1e-3,
    ),
    measurement=Measurement(trial=cases.LARS_TRIAL, full=cases.full_lars),
    checks=(
        Values(2),
        Waits(2),
        StepTime(2, at_most=0.5, advice=(
            "It is not only the waits: the host launches a dozen short kernels for each parameter. Use one "
            "`torch._foreach_` function on the list of all parameters.")),
    ),
    teaching=Teaching(
        hints=(
            "For each parameter the `if` waits for a bool, which only selects a factor. And each parameter launches "
            "a dozen short kernels. Which of them do the same for all parameters?",
            "`torch._foreach_norm(tensors, 2, torch.float32)` gives all norms, and `torch.stack` makes one tensor of "
            "them. Then compute all rates at once, and select with `torch.where`. `torch._foreach_add`, `_foreach_mul_` "
            "and `_foreach_sub_` take lists.",
            "Leave out the parameters without a gradient first. `updates = torch._foreach_add(grads, params, "
            "alpha=weight_decay)`; `torch._foreach_mul_(updates, list(rates.unbind()))`; then `_foreach_mul_(momenta, "
            "momentum)`, `_foreach_add_(momenta, updates)`, `_foreach_sub_(params, momenta)`.",
        ),
        mistakes=mistakes.LARS_MISTAKES,
        explain=explain_lars,
    ),
)
