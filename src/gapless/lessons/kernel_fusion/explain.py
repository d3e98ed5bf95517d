"""Lesson 07: why an answer is wrong that no known mistake gives, in words."""

from __future__ import annotations

import numpy as np

from ...course.causes import of_numbers
from .stage import OUTPUTS

GRADIENT = "gradient of `x`"
SILENTLY_WRONG = (
    "The first derivative is right, and the second one silently wrong. Let `backward` compute it from `ctx.saved_tensors` "
    "with operators that autograd knows. Or refuse it: `@torch.autograd.function.once_differentiable` above `backward`.")
_NEARLY = 0.02  # of the largest number: what half precision and a few operators on it may bring about


def alike(found, wanted) -> bool:
    """Equal, except for rounding."""
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def of_digits(found: dict, wanted: dict) -> str | None:
    """What is wrong with the last digits alone: all numbers are right as far as float32 can tell."""
    if not all(alike(found[name], right) for name, right in wanted.items() if not isinstance(right, str)):
        return None
    return ("For float64 numbers the answer is only as exact as float32. Does something on the way cast (`.float()`), or "
            "cut numbers off (`clamp`)? Does a constant have too few digits?")


def of_outputs(found: dict, wanted: dict, name: str = OUTPUTS) -> str | None:
    """What wrong numbers have to do with the right ones."""
    own, right = (np.asarray(each[name], dtype=float) for each in (found, wanted))
    told = of_numbers(own, right, {})
    if told is None and np.allclose(own, right, rtol=_NEARLY, atol=_NEARLY * np.nanmax(np.abs(right)), equal_nan=True):
        return ("It is close, but not equal: is something computed in a lower precision (`.bfloat16()`, `.half()`, "
                "autocast)? Keep the inputs' dtype.")
    return told
