"""Lesson 03: why an answer to ``suppress_nan_check`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import math


def suppress(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return None
    first = next((name for name in wanted if repr(found.get(name)) != repr(wanted[name])), None)
    if first == "device":
        return ("The metric, or what it computes, is not on the device that it was moved to: make tensors of Python numbers "
                "too with `device=self.device`.")
    if first == "dtype":
        return "What is computed has another dtype: the values have to be returned in the metric's own, `self.dtype`."
    if first is not None and first != "value" and found.get("value") == wanted["value"]:
        return ("The first value is right, but this one is not: something is kept outside the metric's state. Replace only "
                "the method that checks, and leave `update`, `compute`, `forward` and `reset` to the metric.")
    if "doubles" in case.options:
        return ("The class that it was given has an `update` of its own, which doubles the values. Yours does not call it: "
                "replace only the method that checks.")
    if any(name != "CatMetric" and _nan(value) for name, value in zip(case.options["metrics"], found.get("value", []))):
        return "NaN is 0 / 0: the weights that were returned sum up to 0. Without a weight each value counts once."
    if "weights" in case.inputs:
        return ("The weights are not what `update` gave: return the values and the weights as they came, as tensors of "
                "`self.dtype`.")
    return "Return the values as they came, as a tensor of `self.dtype`, and for each the weight 1 if there is none."


def _nan(value) -> bool:
    return isinstance(value, float) and math.isnan(value)
