"""Lesson 06: the exercise ``update_average``."""

from __future__ import annotations

from ....course.checks import HostTime, Kernels, Values
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from .. import cases as shared_cases
from ..advice import LISTS
from ..stage import names
from . import cases, slow
from .explain import explain_average
from .stage import ask_update_average

EXERCISE = Exercise(
    name="update_average",
    slow=slow.update_average,
    cases=cases.average_cases,
    asked=Asked(ask=ask_update_average),
    measurement=Measurement(trial=cases.AVERAGE_TRIAL, step_is="an update"),
    checks=(Values(2), Kernels(2, fewer=2 * (shared_cases.FEWEST - 10), advice=LISTS), HostTime(1, at_most=0.4)),
    teaching=Teaching(
        hints=(
            "Each parameter takes two kernels, and they are the same two for all. Which functions take a whole list? And "
            "which of these tensors may be in one list?",
            "`torch._foreach_lerp_(averages, parameters, 1 - decay)` works on a list, and so do `_foreach_mul_` and "
            "`_foreach_add_(…, alpha=…)`. Make a list for each dtype, in a dict. An empty list is an error.",
            "Go through `zip(averages, parameters)` once and put both into `lists.setdefault(average.dtype, ([], []))`. "
            "Append the parameter as `parameter.to(average.dtype)`, which returns itself if it has that dtype already. "
            "Then call `_foreach_lerp_` once for each entry.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain_average,
    ),
)
