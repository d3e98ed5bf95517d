"""Lesson 03: the exercise ``collect``."""

from __future__ import annotations

from ....course.checks import StepTime, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from .. import cases as shared_cases
from .. import explain
from ..workload import LABELS
from . import cases, mistakes, slow, stage

EXERCISE = Exercise(
    name="collect",
    slow=slow.collect,
    cases=cases.batch_cases,
    asked=Asked(ask=stage.ask_collect, on_device=True),
    right=Right(relative_tolerance=1e-5, absolute_tolerance=1e-6),
    measurement=Measurement(trial=shared_cases.BATCH_TRIAL, assumptions=LABELS),
    checks=(
        Values(2),
        Waits(2, at_most=26, advice={
            "bincount": (
                "each time a metric counts, `bincount` reads back twice. Let the metrics of a `MetricCollection` "
                "count once for all: its `update` shares; calling it (its `forward`) does not"),
            "allclose": (
                "the collection compares the metrics' states, to find out which belong together. `compute_groups` "
                "tells it beforehand"),
            "to": (
                "`.to(device)` copies what was made on the host: make it on the device, inside `with outputs[0].device:`"),
        }),
        StepTime(1, at_most=0.6),
    ),
    teaching=Teaching(
        hints=(
            "All four metrics count the same four things: true and false positives and negatives of each class. How "
            "often does your function count them for one batch? And is the value that `metric(output, target)` returns used "
            "anywhere?",
            "`MetricCollection` takes a dict of metrics and keeps one state for those that count the same, but only in "
            "`update`: calling the collection (its `forward`) still goes through every metric.",
            "Inside `with outputs[0].device:` make the metrics as before; then "
            "`collection = MetricCollection(metrics, compute_groups=[list(METRICS)])`, `collection.update(output, target)` "
            "for each batch and `collection.compute()` once. Without `compute_groups` it compares the metrics' states after "
            "the first update to find out which belong together, and each comparison is a wait.",
        ),
        mistakes=mistakes.COLLECT,
        explain=explain.averages,
    ),
)
