"""How far the elements of two arrays may lie apart and still count as equal."""

from __future__ import annotations

import numpy as np

from .exercise import Exercise

# Of a dtype with fewer digits than float32: (relative, absolute). A few operations, each rounded.
_COARSE = {"float16": (1e-2, 1e-3), "bfloat16": (5e-2, 5e-3)}


def tolerances(exercise: Exercise, dtype: str = "float32") -> tuple[float, float]:
    """(relative, absolute) for answers whose inputs or values are of ``dtype``."""
    relative, absolute = _COARSE.get(dtype, (0.0, 0.0))
    return max(relative, exercise.right.relative_tolerance), max(absolute, exercise.right.absolute_tolerance)


def close(exercise: Exercise, found: np.ndarray, wanted: np.ndarray, dtype: str | None = None) -> np.ndarray:
    """Element by element; nan equals nan. ``dtype``: by default that of ``wanted``."""
    relative, absolute = tolerances(exercise, dtype or str(wanted.dtype))
    return np.isclose(found, wanted, rtol=relative, atol=absolute, equal_nan=True)
