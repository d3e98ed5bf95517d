"""Lesson 03: the metrics of a training loop, which make the host wait in every step. About TorchMetrics 1.9.0.

The functions as first written are in ``functions``, the workload in ``workload``, the inputs and how they are asked in
``cases``, how each function is called in ``stage``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import cases, explain, functions, mistakes, stage
from .functions import torchmetrics
from .quick import QUICK
from .workload import LABELS, SMALL_SIZE, TrainingMetrics, size_in_words, training_step

MADE_ON_THE_HOST = ("TorchMetrics makes a tensor of a Python number on the host and copies it to the metric's device, as "
                    "`torch.tensor(…, device=…)` and `new_tensor` do")

EXERCISES = (
    Exercise(
        name="update_loss",
        slow=functions.update_loss,
        cases=cases.loss_cases,
        ask=stage.ask_update_loss,
        trial=cases.LOSS_TRIAL,
        busy_ms=40.0,
        mistakes=mistakes.UPDATE_LOSS,
        explain=explain.update_loss,
        points={"values": 2, "syncs": 2},
        max_syncs=2,
        advice={
            "to": f"{MADE_ON_THE_HOST}. Fill a tensor on the device instead: then the number goes along with the kernel",
            "item": "two of these are the NaN check's: that is the next exercise, and they may stay. Any other makes a "
                    "Python number of a tensor (`.item()`, `float()`, `if`)",
        },
        assumptions=LABELS,
        hints=(
            "Three waits: one copies something *to* the device, two bring something back. Which number does the host "
            "have in its hand here that the device needs?",
            "`batch` is a Python number, and TorchMetrics makes a tensor of it on the host, to copy it: "
            "`torch.as_tensor(batch, device=…)`. A tensor can also be made where it is needed: which function of "
            "PyTorch fills one on the device with a number that is passed to the kernel?",
            "`torch.full_like(loss, batch)` has the loss's shape, dtype and device. (`torch.tensor(batch, device=…)` "
            "copies, as before.) The two waits of the NaN check stay: they are the next exercise.",
        ),
    ),
    Exercise(
        name="suppress_nan_check",
        slow=functions.suppress_nan_check,
        cases=cases.aggregator_cases,
        ask=stage.ask_suppress,
        trial=cases.AGGREGATOR_TRIAL,
        busy_ms=40.0,
        mistakes=mistakes.SUPPRESS,
        explain=explain.suppress,
        advice={"item": "this is the NaN check, which asks the device for a truth value. `nan_strategy=\"ignore\"`, "
                        "\"warn\" or a "
                        "number still ask; only another method in the place of `_cast_and_nan_check_input` does not"},
        points={"values": 2, "syncs": 2, "host_time": 1},
        max_time_ratio={"host_time": 0.25},
        assumptions=LABELS,
        hints=(
            "`if nans.any()` asks the device for a truth value. All aggregators do it in one method of their common "
            "base class. How do you give a class another version of a method that it inherits?",
            "The method is `_cast_and_nan_check_input(self, x, weight=None)` of `BaseAggregator`: it returns the "
            "values and the weights, both as tensors of `self.dtype`. `MaxMetric` and the like call it without a "
            "weight. `nan_strategy=\"disable\"` is not the way: try it on values 1, 2, 3 with weights 1, 0, 0.",
            "Return a class that inherits from `MetricClass` and overrides the method: make a tensor of `x` if it is "
            "none (`torch.as_tensor(x, dtype=self.dtype, device=self.device)`), the same for the weight, ones like `x` "
            "where there is no weight; return both, and ask nothing.",
        ),
    ),
    Exercise(
        name="collect",
        slow=functions.collect,
        cases=cases.batch_cases,
        ask=stage.ask_collect,
        trial=cases.BATCH_TRIAL,
        on_device=True,
        mistakes=mistakes.COLLECT,
        explain=explain.averages,
        relative_tolerance=1e-5,
        absolute_tolerance=1e-6,
        points={"values": 2, "syncs": 2, "step_time": 1},
        max_syncs=30,
        advice={
            "bincount": "each time a metric counts, `bincount` reads back twice. Let the metrics of a `MetricCollection` "
                        "count once for all: its `update` shares; calling it (its `forward`) does not",
            "allclose": "the collection compares the metrics' states, to find out which belong together. `compute_groups` "
                        "tells it beforehand",
            "to": "`.to(device)` copies what was made on the host: make it on the device, inside `with outputs[0].device:`",
        },
        max_time_ratio={"step_time": 0.6},
        assumptions=LABELS,
        hints=(
            "All four metrics count the same four things: true and false positives and negatives of each class. How "
            "often does your function count them for one batch? And is the value that `metric(output, target)` returns used "
            "anywhere?",
            "`MetricCollection` takes a dict of metrics and keeps one state for those that count the same, but only in "
            "`update`: calling the collection (its `forward`) still goes through every metric.",
            "Inside `with outputs[0].device:` make the metrics as before; then "
            "`collection = MetricCollection(metrics, compute_groups=[list(METRICS)])`, `collection.update(output, target)` "
            "for each batch and `collection.compute()` once. Without `compute_groups` it compares the metrics' states after "
            "the first update to find out which belong together, and waits for it.",
        ),
    ),
    Exercise(
        name="step_time_metric",
        slow=functions.step_time_metric,
        cases=cases.time_cases,
        ask=stage.ask_step_time,
        trial=cases.TIME_TRIAL,
        busy_ms=40.0,
        mistakes=mistakes.STEP_TIME,
        explain=explain.step_time,
        points={"values": 2, "syncs": 2},
        advice={
            "to": f"{MADE_ON_THE_HOST}. Either the state stays on the CPU, or the update is given what a kernel takes along "
                  "without a copy (the question behind exercise 1)",
            "item": "the NaN check asks on the device where the value lies. A value on the CPU is asked there, and nobody "
                    "waits",
        },
        assumptions=LABELS,
        hints=(
            "The step time is measured on the host, and its mean is read on the host. What does the device have to do with "
            "it?",
            "A metric on the CPU waits for nothing. Under DDP its `compute` gathers the state of all processes; over a "
            "group that serves GPUs alone that is an error. Look at the arguments that every metric takes: which of "
            "them leaves the gathering out?",
            "`MeanMetric(sync_on_compute=False)`, and no `.to(device)`. The other way keeps the state on the device, "
            "and with it the mean over all processes: a subclass whose `update` makes a zero-dimensional CPU tensor of "
            "the float. Such a tensor is passed to a kernel by value, and its NaN check asks the CPU.",
        ),
    ),
    Exercise(
        name="evaluate",
        slow=functions.evaluate,
        cases=cases.evaluation_cases,
        ask=stage.ask_evaluate,
        trial=cases.EVALUATION_TRIAL,
        on_device=True,
        busy_ms=40.0,
        mistakes=mistakes.EVALUATE,
        explain=explain.averages,
        relative_tolerance=1e-5,
        absolute_tolerance=1e-6,
        points={"values": 2, "syncs": 3, "host_time": 1},
        max_time_ratio={"host_time": 0.4},
        advice={
            "_unique2": "the number of distinct values is known to the device alone. It is counted only to validate the "
                        "labels and predictions, which need not be in every batch",
            "nonzero": "how many elements a mask picks is known to the device alone, and what is ignored is taken out with "
                       "a mask. Leave it in, and count it where it does no harm",
        },
        assumptions=LABELS,
        hints=(
            "Three causes, each four times a batch. Share the state first. Then take one cause after the other: what is "
            "`unique` for, what is indexing with a mask for, what is `bincount` for?",
            "`unique` only validates: `validate_args=False`, or give the logits instead of integers. The mask is "
            "`ignore_index`: put what is ignored into a class of its own, and drop that class from the counts. "
            "`bincount` reads back its largest value to know its length; `scatter_add_` into a tensor of zeros whose "
            "length you know does not. For these two TorchMetrics has no switch.",
            "Count pairs: `torch.where(targets == IGNORE, CLASSES, targets) * (CLASSES + 1) + predictions`, "
            "`scatter_add_` of ones into (CLASSES + 1)² zeros, reshape, and cut the last row and the last column off "
            "(`[:CLASSES, :CLASSES]`; the column is empty): the confusion matrix. From it true positives "
            "(diagonal), false positives (column sums less the diagonal), false negatives (row sums less the diagonal). "
            "Either compute the averages from them, or let TorchMetrics: a subclass whose `update` ends in "
            "`self._update_state(tp, fp, tn, fn)`.",
        ),
    ),
)


# -- the headline ---------------------------------------------------------------------------------


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The training step without metrics, with them as first written, then with one fix after another, at a batch so small
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
        program("metrics as first written", "nearly 10 % slower; eight syncs a step"),
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
