"""Lesson 02: a masked segmentation loss whose data-dependent sizes make the host wait.

After Chaim Rand's "PyTorch Model Performance Analysis and Optimization, Part 3" (2023). The unoptimised loss is in
``functions``, the training step in ``workload``, the inputs in ``cases``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Lesson, Program
from .ignore_background.exercise import EXERCISE as IGNORE_BACKGROUND
from .masked_cross_entropy.exercise import EXERCISE as MASKED_CROSS_ENTROPY
from .quick import QUICK
from .sparse_head_loss.exercise import EXERCISE as SPARSE_HEAD_LOSS
from .stage import names
from .workload import ARTICLE_SIZE, LABELS, LossParts, size_for, training_step
from .zero_if_uniform.exercise import EXERCISE as ZERO_IF_UNIFORM

EXERCISES = (IGNORE_BACKGROUND, ZERO_IF_UNIFORM, MASKED_CROSS_ENTROPY, SPARSE_HEAD_LOSS)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The training step with the unoptimised loss, then with one fix after another, as in the article."""
    background, uniform, entropy = (fixed[n] for n in ("ignore_background", "zero_if_uniform", "masked_cross_entropy"))

    def program(name: str, loss: LossParts, article: str) -> Program:
        return Program(name, lambda device: training_step(loss, device), article, LABELS)

    return [
        program("unoptimised", LossParts(), "1300 ms"),
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
