"""Lesson 02: a masked segmentation loss whose data-dependent sizes make the host wait.

After Chaim Rand's "PyTorch Model Performance Analysis and Optimization, Part 3" (2023). The loss as first written is in
``functions``, the training step in ``workload``, the inputs in ``cases``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import cases, explain, functions, mistakes
from .quick import QUICK
from .stage import names
from .workload import ARTICLE_SIZE, LABELS, LossParts, size_for, training_step

# -- the exercises --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        name="ignore_background",
        slow=functions.ignore_background,
        cases=cases.background_cases,
        mistakes=mistakes.BACKGROUND_MISTAKES,
        explain=explain.background,
        full=cases.full_background,
        trial=cases.BACKGROUND_TRIAL,
        busy_ms=100.0,
        points={"values": 2, "syncs": 2, "host_time": 1},
        max_time_ratio={"host_time": 0.25},
        assumptions=LABELS,
        hints=(
            "How many background pixels are there? The host cannot know before the device has counted them, and "
            "`nonzero` needs the number to size its result. Which operation answers pixel by pixel, in a result as "
            "large as its input?",
            "`torch.where(condition, a, b)` with three arguments takes `a` where the condition holds and `b` elsewhere. "
            "Its result has the shape of its inputs, whatever their values.",
            "Take `IGNORE` where `target == BACKGROUND`, and `target` elsewhere. A Python number is fine as `a`: it is "
            "passed to the kernel by value.",
        ),
    ),
    Exercise(
        name="zero_if_uniform",
        slow=functions.zero_if_uniform,
        cases=cases.uniform_cases,
        mistakes=mistakes.UNIFORM_MISTAKES,
        explain=explain.uniform,
        full=cases.full_uniform,
        trial=cases.UNIFORM_TRIAL,
        busy_ms=100.0,
        points={"values": 2, "syncs": 2, "host_time": 1},
        max_time_ratio={"host_time": 0.25},
        assumptions=LABELS,
        hints=(
            "`unique` sizes its result by what it finds, so the host waits for the count; the Python `if` needs that "
            "count on the host too. What do you need to know about the labels: their distinct values, or only whether "
            "there is more than one? And who needs to know it, the host or the device?",
            "Labels are all the same exactly when the smallest equals the largest: both are numbers that can stay on the "
            "device. (Sorting and counting the steps between neighbours also works, and costs more.)",
            "Keep the condition as a tensor and choose with `torch.where(uniform, 0.0 * loss, loss)`: both sides are "
            "computed, which is nothing for a scalar, and nobody has to wait.",
        ),
    ),
    Exercise(
        name="masked_cross_entropy",
        slow=functions.masked_cross_entropy,
        cases=cases.cross_entropy_cases,
        mistakes=mistakes.ENTROPY_MISTAKES,
        explain=explain.entropy,
        full=cases.full_cross_entropy,
        trial=cases.CROSS_ENTROPY_TRIAL,
        points={"values": 2, "syncs": 2, "step_time": 2},
        max_time_ratio={"step_time": 0.6},
        assumptions=LABELS,
        hints=(
            "`x[mask]` is a `nonzero` in disguise: count, wait, select, gather; and the backward pass does it again. The "
            "rows that are picked out are needed for one thing only. Can the loss itself leave pixels out?",
            "Look at the arguments of `torch.nn.functional.cross_entropy`, and at the shapes it takes: B×C×H×W logits with "
            "B×H×W labels need no permuting.",
            "`ignore_index` names the label that adds nothing to the sum and is not counted in the mean.",
        ),
    ),
    Exercise(
        name="sparse_head_loss",
        slow=functions.sparse_head_loss,
        cases=cases.head_cases,
        mistakes=mistakes.HEAD_MISTAKES,
        explain=explain.head,
        full=cases.full_head,
        trial=cases.HEAD_TRIAL,
        points={"values": 2, "step_time": 3},
        max_time_ratio={"step_time": 0.3},
        max_syncs=2,
        assumptions=cases.HEAD,
        hints=(
            "Nothing waits here, and it is slow all the same: count the FLOPs. Only one row in sixteen has a label, and all "
            "rows are multiplied with all of the head. In which order should you select and multiply?",
            "Select the valid rows of `hidden` and of `target` first, then multiply. A boolean mask does it, for the price "
            "of a wait or two: measure whether the saved arithmetic is worth it. To have no wait at all, "
            "use a size the host knows: `max_valid`.",
            "`torch.nonzero_static(mask, size=max_valid, fill_value=0)` returns positions and pads with 0: row 0, "
            "which must not count twice. Replace the labels of the padding by `IGNORE` (its places are those from "
            "`mask.sum()` on: compare with `torch.arange`), and let `ignore_index` leave them out.",
        ),
    ),
)


# -- the headline ---------------------------------------------------------------------------------


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The training step with the loss as first written, then with one fix after another, as in the article."""
    background, uniform, entropy = (fixed[n] for n in ("ignore_background", "zero_if_uniform", "masked_cross_entropy"))

    def program(name: str, loss: LossParts, article: str) -> Program:
        return Program(name, lambda device: training_step(loss, device), article, LABELS)

    return [
        program("as first written", LossParts(), "1300 ms"),
        program("`torch.where` for `nonzero`", LossParts(background), "as before"),
        program("no `unique`", LossParts(background, uniform), "as before"),
        program("`ignore_index` for the mask", LossParts(background, uniform, entropy),
                "5.4 ms in the trace, “240×”; later restated as about 330 ms, 4×"),
    ]


def size_in_words(device: torch.device) -> str:
    """Such as "batch 256 of 3×256×256 (the article's size)"."""
    size = size_for(device)
    note = "the article's size" if size == ARTICLE_SIZE else f"the article's {ARTICLE_SIZE.batch} does not fit"
    return f"batch {size.batch} of 3×{size.side}×{size.side} ({note})"


LESSON = Lesson(
    id="02_masked_loss",
    title="The masked loss",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=programs,
    size=size_in_words,
    article="A10G, PyTorch 2.0",
    assumptions=LABELS,
    quick=QUICK,
)
