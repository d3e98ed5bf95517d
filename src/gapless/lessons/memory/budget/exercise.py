"""Lesson 08: the exercise ``budget``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Setting, Teaching
from . import cases, explain, mistakes, right, slow, stage

EXERCISE = Exercise(
    name="budget",
    slow=slow.budget,
    cases=cases.budget_cases,
    asked=Asked(ask=stage.ask_budget, see=explain.seen, verify=explain.verified),
    right=Right(function=right.right_budget, on_device=True, relative_tolerance=0.1),
    setting=Setting(valueless=True),
    checks=(Values(6),),
    teaching=Teaching(
        hints=(
            "Which of the six numbers does `model` alone tell you, and for which do you need the optimizer? Which of "
            "them grow with the batch? And when is the memory fullest: at the end of the forward pass, at the end of the "
            "backward pass, or in the optimizer's step?",
            "Parameters, buffers and gradients are sums of `tensor.nbytes`: over `model.parameters()` (each once), over "
            "`model.buffers()`, and over the parameters with `requires_grad`. For the activations, compare "
            "`torch.accelerator.memory_allocated()` before and after a forward pass. Do it with few rows (a sixteenth, "
            "say) and with twice as many, and draw a line through the two.",
            "`there = parameters + buffers + state + batch`, and the peak is `there + max(activations, gradients + "
            "temporary)`. For Adam and AdamW `temporary` is as large as the gradients, unless `group[\"fused\"]` is True or "
            "`group[\"foreach\"]` is False, with `group = optimizer.param_groups[0]`. The state of each trained parameter: "
            "Adam 2 tensors, 3 with `amsgrad`; SGD 1 if `momentum` is not 0.",
        ),
        mistakes=mistakes.BUDGETS,
        explain=explain.budget,
    ),
)
