"""Settings that every program has, drawn for small inputs: none may be taken for a constant."""

import numpy as np


def drawn_settings(rng: np.random.Generator, *, pictures: bool) -> dict:
    """Settings that a run on small inputs has, other than the usual ones; those of ``pictures``, too."""
    def some(low: float, high: float) -> float:
        return round(float(rng.uniform(low, high)), 2)

    found: dict = {"momentum": some(0.6, 0.95), "ema_decay": some(0.7, 0.95)}
    if pictures:
        found |= {"mean": tuple(some(0.3, 0.5) for _ in range(3)), "std": tuple(some(0.2, 0.3) for _ in range(3))}
    return found
