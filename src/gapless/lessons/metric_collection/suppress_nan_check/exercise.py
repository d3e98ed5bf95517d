"""Lesson 03: the exercise ``suppress_nan_check``."""

from __future__ import annotations

from ....course.checks import HostTime, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from .. import cases as shared_cases
from ..workload import LABELS
from . import cases, explain, mistakes, slow, stage

EXERCISE = Exercise(
    name="suppress_nan_check",
    slow=slow.suppress_nan_check,
    cases=cases.aggregator_cases,
    asked=Asked(ask=stage.ask_suppress),
    measurement=Measurement(trial=shared_cases.AGGREGATOR_TRIAL, assumptions=LABELS, busy_ms=40.0),
    checks=(
        Values(2),
        Waits(2, advice={"item": (
                "this is the NaN check, which asks the device for a bool. `nan_strategy=\"ignore\"`, \"warn\" or a "
                "number still ask; only another method in the place of `_cast_and_nan_check_input` does not")}),
        HostTime(1, at_most=0.25),
    ),
    teaching=Teaching(
        hints=(
            "`if nans.any()` asks the device for a bool. All aggregators do it in one method of their common base "
            "class. How can a class replace a method that it inherits?",
            "The method is `_cast_and_nan_check_input(self, x, weight=None)` of `BaseAggregator`: it returns the "
            "values and the weights, both as tensors of `self.dtype`. `MaxMetric` and its siblings call it without a "
            "weight. `nan_strategy=\"disable\"` is not the way: try it on values 1, 2, 3 with weights 1, 0, 0.",
            "Return a class that inherits from `MetricClass` and overrides the method. Make `x` a tensor "
            "(`torch.as_tensor(x, dtype=self.dtype, device=self.device)`), and the weight too. If there is no weight, "
            "use ones like `x`. Return both, and do not check anything.",
        ),
        mistakes=mistakes.SUPPRESS,
        explain=explain.suppress,
    ),
)
