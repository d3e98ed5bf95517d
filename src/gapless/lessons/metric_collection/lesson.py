"""Lesson 03: the metrics of a training loop, which make the host wait in every step. About TorchMetrics 1.9.0.

The unoptimised functions are in ``functions``, the workload in ``workload``, the inputs and how they are asked in
``cases``, how each function is called in ``stage``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Lesson, Program
from . import stage
from .collect.exercise import EXERCISE as COLLECT
from .evaluate.exercise import EXERCISE as EVALUATE
from .quick import QUICK
from .stage import torchmetrics
from .step_time_metric.exercise import EXERCISE as STEP_TIME_METRIC
from .suppress_nan_check.exercise import EXERCISE as SUPPRESS_NAN_CHECK
from .update_loss.exercise import EXERCISE as UPDATE_LOSS
from .workload import LABELS, SMALL_SIZE, TrainingMetrics, size_in_words, training_step

EXERCISES = (UPDATE_LOSS, SUPPRESS_NAN_CHECK, COLLECT, STEP_TIME_METRIC, EVALUATE)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The training step without metrics, with unoptimised ones, then with one fix after another, at a batch so small
    that metrics cost nearly a tenth of it (A40, A10G). A step holds the updates; computing, printing and resetting come
    once in a hundred steps, and are left out."""

    def program(name: str, article: str, **parts) -> Program:
        def make_step(device: torch.device):
            if "suppress" in parts:
                own = type("MeanMetric", (torchmetrics().MeanMetric,), {})  # a wrong decorator may change it
                mean_class = parts["suppress"](own)
            else:
                mean_class = None
            metrics = TrainingMetrics(device, parts.get("update_loss"), mean_class, parts.get("shared", False))
            return training_step(device, metrics, SMALL_SIZE)

        return Program(name, make_step, article, LABELS)

    weight = {"update_loss": fixed["update_loss"]}
    unchecked = {**weight, "suppress": fixed["suppress_nan_check"]}
    return [
        Program("no metrics", lambda device: training_step(device, size=SMALL_SIZE), "the reference", LABELS),
        program("unoptimised metrics", "nearly 10 % slower; eight syncs a step"),
        program("the weight made on the device", "one copy less", **weight),
        program("no NaN check", "back at the reference", **unchecked),
        program("one state for four metrics", "not in the article", **unchecked, shared=True),
    ]


LESSON = Lesson(
    id="03_metric_collection",
    title="Metric collection",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=stage.names,
    programs=programs,
    quick=QUICK,
    size=size_in_words,
    article="batch 128, A40, PyTorch 2.5.1, TorchMetrics 1.6.1",
    assumptions=LABELS,
    packages=("torchmetrics", "torchvision", "lightning_utilities", "packaging", "typing_extensions", "PIL"),
)
