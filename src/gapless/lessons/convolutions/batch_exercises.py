"""Lesson 05: the exercises on large batches."""

from __future__ import annotations

from ...course.exercise import Exercise
from . import batch_cases, batch_explain, batch_mistakes, functions, large_batches, right_batch

BATCHES = (
    Exercise(
        name="largest_batch",
        slow=functions.largest_batch,
        right=right_batch.right_largest_batch,
        cases=batch_cases.largest_batch_cases,
        ask=large_batches.ask_largest_batch,
        mistakes=batch_mistakes.LARGEST_MISTAKES,
        explain=batch_explain.largest_batch,
        points={"values": 4},
        hints=(
            "If 512 samples fit, do you have to try 256? And who holds the memory of a trial that failed?",
            "Keep two numbers: a size that fits, and one that does not. Try the middle, and one of them moves there. Catch "
            "`torch.OutOfMemoryError` alone. Inside `except` the error is alive, and with its traceback all tensors of the "
            "failed step: only note there that it failed.",
            "Count in eights: `low, high = 0, most // 8 + 1`; while `high - low > 1` try `8 * ((low + high) // 2)`, set a "
            "variable `fits` in `try` and in `except`, and move `low` or `high` after them. Return `8 * low`.",
        ),
    ),
    Exercise(
        name="warmup_schedule",
        slow=functions.warmup_schedule,
        right=right_batch.right_warmup_schedule,
        cases=batch_cases.schedule_cases,
        ask=large_batches.ask_warmup_schedule,
        mistakes=batch_mistakes.SCHEDULE_MISTAKES,
        points={"values": 3},
        hints=(
            "At step 0 the rate is the optimizer's own. What is it at step `warmup`, and at step `total`?",
            "`LambdaLR` multiplies each group's own rate by what your function of the step returns: 1 at first, `factor` at "
            "step `warmup`, 0 from step `total` on.",
            "Before `warmup`: `1 + (factor - 1) * step / warmup`. After: `share = min((step - warmup) / (total - warmup), "
            "1)`, and `factor * (1 + math.cos(math.pi * share)) / 2`.",
        ),
    ),
    Exercise(
        name="lars_step",
        slow=functions.lars_step,
        cases=batch_cases.lars_cases,
        ask=large_batches.ask_lars_step,
        mistakes=batch_mistakes.LARS_MISTAKES,
        full=batch_cases.full_lars,
        trial=batch_cases.LARS_TRIAL,
        points={"values": 2, "syncs": 2, "step_time": 2},
        max_time_ratio={"step_time": 0.5},
        advice={"step_time": "It is not only the waits: the host launches a dozen short kernels for each parameter. Let one "
                             "`torch._foreach_` function do it for the list of all."},
        relative_tolerance=5e-3,  # float16's: the order of its operators is free
        absolute_tolerance=1e-3,
        hints=(
            "Two lines of each parameter wait, for a yes or no that only chooses a factor. And a dozen short kernels for "
            "each parameter: which of them do the same for all?",
            "`torch._foreach_norm(tensors, 2, torch.float32)` gives all norms, and `torch.stack` makes one tensor of them: "
            "then all rates are computed at once, and `torch.where` chooses. `torch._foreach_add`, `_foreach_mul_` and "
            "`_foreach_sub_` take lists.",
            "Leave out the parameters without a gradient first. `updates = torch._foreach_add(grads, params, "
            "alpha=weight_decay)`; `torch._foreach_mul_(updates, list(rates.unbind()))`; then `_foreach_mul_(momenta, "
            "momentum)`, `_foreach_add_(momenta, updates)`, `_foreach_sub_(params, momenta)`.",
        ),
    ),
)
