"""Lesson 06: the exercise ``clip``."""

from __future__ import annotations

from ....course.checks import HostTime, Kernels, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from .. import cases as shared_cases
from ..advice import LISTS
from . import cases, mistakes, slow
from .explain import explain_clip
from .stage import ask_clip

EXERCISE = Exercise(
    name="clip",
    slow=slow.clip,
    cases=cases.clip_cases,
    asked=Asked(ask=ask_clip, see=cases.seen),
    right=Right(
        # float16's: a norm in it has three digits
        relative_tolerance=3e-3,
        absolute_tolerance=1e-3,
    ),
    measurement=Measurement(trial=cases.CLIP_TRIAL, busy_ms=2.0),
    checks=(
        Values(2),
        Waits(2, advice={"item": (
                "you read back a norm for each gradient. All norms fit into one tensor, their norm is another tensor, "
                "and so is the factor. Always multiply by it, at most 1")}),
        Kernels(1, fewer=2 * (shared_cases.FEWEST - 20), advice=LISTS),
        HostTime(1, at_most=0.25),
    ),
    teaching=Teaching(
        hints=(
            "Where do you need the norm as a number? And which two operations are the same for each gradient?",
            "`torch._foreach_norm(grads)` gives all norms, `torch.stack` makes one tensor of them, and its norm is the "
            "norm of all. The factor stays a tensor: use `.clamp(max=1.0)` instead of `if`. `torch._foreach_mul_` takes "
            "it.",
            "Group the existing gradients by dtype. `norm = torch.linalg.vector_norm(torch.stack(norms))`, `factor = "
            "(max_norm / (norm + 1e-6)).clamp(max=1.0)`, `torch._foreach_mul_(grads, factor.to(dtype))` for each dtype. "
            "Without any gradient the norm is `torch.zeros(())`.",
        ),
        mistakes=mistakes.CLIP_MISTAKES,
        explain=explain_clip,
    ),
)
