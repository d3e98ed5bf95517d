"""How far two answers may lie apart and still count as equal: the exercise's tolerances, and what computers round.

Where a computation loses digits (a gradient behind a norm, a small difference of large sums), float32 can be coarser than
the exercise's tolerance. How coarse it is shows when the right function is asked again: in float64, and with inputs that
differ in their last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from .evidence import Answer, Case
from .exercise import Exercise
from .plain import place_of

VALUE = "value"

# On a real GPU: how much farther an answer may be off that a measurement gives, and the band around a target inside which a
# ratio decides nothing.
NOISE = 0.1

_TIMES = 4.0  # what was seen is one of many ways to round, and a right answer may err to the other side
_LARGEST = 0.05  # of the largest number there. What differs by more hangs on a decision, and not on rounding.

# Of a dtype with fewer digits than float32: (relative, absolute). A few operations, each rounded.
_COARSE = {"float16": (1e-2, 1e-3), "bfloat16": (5e-2, 5e-3)}


def tolerances(exercise: Exercise, dtype: str = "float32") -> tuple[float, float]:
    """(relative, absolute) for answers whose inputs or values are of ``dtype``."""
    relative, absolute = _COARSE.get(dtype, (0.0, 0.0))
    return max(relative, exercise.right.relative_tolerance), max(absolute, exercise.right.absolute_tolerance)


def plain_tolerances(exercise: Exercise, case: Case) -> tuple[float, float]:
    """(relative, absolute) for the numbers in a plain answer to ``case``."""
    return case.tolerance or (exercise.right.relative_tolerance, exercise.right.absolute_tolerance)


def close(exercise: Exercise, found: np.ndarray, wanted: np.ndarray, slack: float = 0.0) -> np.ndarray:
    """Element by element; nan equals nan. ``slack``: the absolute tolerance, where it is larger than the exercise's."""
    relative, absolute = tolerances(exercise, str(wanted.dtype))
    return np.isclose(found, wanted, rtol=relative, atol=max(absolute, slack), equal_nan=True)


def slack(case: Case, expected: Answer, answer: Callable[[Case], Answer]) -> dict[str, float]:
    """Place in the answer → how far a right number there may lie from the ``expected`` one. ``answer`` asks the right
    function. The numbers of one list, or of one tensor, have one place (:func:`.plain.place_of`)."""
    wanted = _numbers(expected)
    found = dict.fromkeys(wanted, 0.0)
    for again in (_in_float64(case), *(_last_bit_changed(case, seed) for seed in range(2))):
        made = _numbers(answer(again))
        for place, numbers in wanted.items():
            other = made.get(place)
            if other is not None and other.shape == numbers.shape:
                with np.errstate(invalid="ignore"):  # of infinities, which are no distance
                    found[place] = max(found[place], _largest(other - numbers))
    return {place: min(_TIMES * distance, _LARGEST * _largest(wanted[place])) for place, distance in found.items()}


def _largest(numbers: np.ndarray) -> float:
    """The largest magnitude; 0 where there is no finite number."""
    return float(np.max(np.abs(numbers), initial=0.0, where=np.isfinite(numbers)))


def gradient_of(name: str) -> str:
    """The place of an input's gradient."""
    return f"gradient of {name}"


def _numbers(answer: Answer) -> dict[str, np.ndarray]:
    """Place → the numbers with a fraction there, in float64."""
    if answer.value is not None:
        arrays = {VALUE: answer.value, **{gradient_of(name): grad for name, grad in answer.grads.items()}}
        return {place: array.astype(np.float64) for place, array in arrays.items() if array.dtype.kind == "f"}
    found: dict[str, list[float]] = {}
    for where, number in _leaves(answer.plain, ""):
        found.setdefault(place_of(where), []).append(number)
    return {place: np.array(numbers) for place, numbers in found.items()}


def _leaves(plain, where: str) -> Iterator[tuple[str, float]]:
    """The numbers with a fraction, each with where it is, as :func:`.plain.difference` says it."""
    if type(plain) is float:
        yield where, plain
    elif isinstance(plain, list):
        for i, item in enumerate(plain):
            yield from _leaves(item, f"{where}[{i}]")
    elif isinstance(plain, dict):
        for key, item in plain.items():
            yield from _leaves(item, f"{where}[{key!r}]" if where else key)


def _in_float64(case: Case) -> Case:
    return _changed(case, lambda array: array.astype(np.float64) if array.dtype == np.float32 else array)


def _last_bit_changed(case: Case, seed: int) -> Case:
    """Of numbers in float32, up or down by chance; what is 0, inf or nan stays so. A half's last bit is no rounding error:
    an answer may have to be more exact."""
    rng = np.random.default_rng(seed)

    def change(array: np.ndarray) -> np.ndarray:
        if array.dtype != np.float32:
            return array
        towards = np.where(rng.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
        return np.where((array == 0) | ~np.isfinite(array), array, np.nextafter(array, towards))

    return _changed(case, change)


def _changed(case: Case, change: Callable[[np.ndarray], np.ndarray]) -> Case:
    inputs: Mapping = {name: [change(each) for each in value] if isinstance(value, list) else change(value)
                       for name, value in case.inputs.items()}
    return replace(case, inputs=dict(inputs))
