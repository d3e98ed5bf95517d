"""Lesson 05: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import (
    batch_cases,
    batch_explain,
    batch_mistakes,
    cases,
    functions,
    large_batches,
    mistakes,
    precision_cases,
    precision_explain,
    precision_mistakes,
    right_batch,
    size_cases,
    size_mistakes,
)
from .mixed_training import ask_train_step
from .quick import QUICK
from .right_precision import right_sizes, right_train_step
from .sized_networks import ask_tensor_core_sizes
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
    Exercise(
        name="tensor_core_sizes",
        slow=functions.tensor_core_sizes,
        right=right_sizes,
        cases=size_cases.size_cases,
        ask=ask_tensor_core_sizes,
        mistakes=size_mistakes.SIZE_MISTAKES,
        explain=size_mistakes.explain,
        points={"values": 5},
        relative_tolerance=2e-3,  # a sum with zeros in it is added up in another order, and then trained on
        absolute_tolerance=5e-4,
        hints=(
            "Which sizes does a convolution or a linear layer have, as a product of matrices? And what has to stand in the "
            "places that are new, so that nothing changes, now and after a training step?",
            "`F.pad` appends zeros: to both dimensions of a weight (of the first convolution's only to the outputs), to "
            "biases, to the norms' weights, biases and running statistics. A layer takes a new `nn.Parameter` in place of "
            "its old one. The classes are the first columns of the outputs.",
            "`-size % 8` zeros are missing at a size. `F.pad` counts from the last dimension: for a weight O×I×3×3 it is "
            "`F.pad(weight, [0, 0, 0, 0, 0, -I % 8, 0, -O % 8])`. At the end of the Sequential a module whose `forward` "
            "returns `outputs[:, :classes]`.",
        ),
    ),
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
