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
            "Which of the six does `model` alone tell, and for which do you have to ask the optimizer? Which of them grow "
            "with the batch? And at which moments of a step is most there: at the end of the forward pass, of the backward "
            "pass, in the optimizer's step?",
            "Parameters, buffers, gradients and state are sums of `tensor.nbytes`, over `model.parameters()` (each once), "
            "over `model.buffers()`, over those with `requires_grad`. What the forward pass leaves: "
            "`torch.accelerator.memory_allocated()` before and after it, with few rows (a sixteenth, say) and with twice as "
            "many, and then a line through the two.",
            "`there = parameters + buffers + state + batch`, and the peak is `there + max(activations, gradients + "
            "temporary)`, where `temporary` is as much as the gradients for Adam and AdamW unless "
            "`optimizer.param_groups[0][\"fused\"]`. State for each trained parameter: Adam 2 tensors, 3 with `amsgrad`; "
            "SGD 1 where `momentum` is not 0.",
        ),
        mistakes=mistakes.BUDGETS,
        explain=explain.budget,
    ),
)
