"""Lesson 06: trainings with debug aids, the set drawn."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .stage import CLASSES, FEATURES, WIDTH

# By what they cost where a step is as short as here; a test measures it.
COSTLY = ("anomaly_mode", "launches_wait", "statistics_read", "statistics_kept", "forward_repeated", "gradient_checked")
CHEAP = ("first_step_checked", "ranges_emitted", "shapes_checked", "weights_summed")
NEEDED = ("explosions_skipped", "norm_logged", "repeatable", "ratio_added")
_ALONE = NEEDED[:-1]  # the last one is needed only beside an aid that writes lines
_ROWS, _BATCHES = 12, 5
_WORDS = ("dbg", "check", "trace", "verify", "aid", "extra", "opt", "flag")


def training_case(rng: np.random.Generator, name: str, kinds: list[str]) -> Case:
    """Its aids in any order, their names saying nothing. One batch is so large that its gradients explode."""
    words = rng.permutation([f"{word}_{number}" for word in _WORDS for number in (1, 2)])
    drawn = {str(word): str(kind) for word, kind in zip(words, rng.permutation(kinds))} if kinds else {}
    x = rng.normal(size=(_BATCHES, _ROWS, FEATURES)).astype(np.float32)
    x[int(rng.integers(1, 3))] *= 30
    weights = [(0.3 * rng.normal(size=shape)).astype(np.float32)
               for shape in ((WIDTH, FEATURES), (WIDTH,), (CLASSES, WIDTH), (CLASSES,))]
    return Case(name, {"weights": weights, "x": list(x), "y": list(rng.integers(0, CLASSES, size=(_BATCHES, _ROWS)))},
                {"kinds": drawn, "every": 3})


def debug_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def some(of: tuple[str, ...], count: int) -> list[str]:
        return [str(kind) for kind in rng.choice(of, size=count, replace=False)]

    rest = tuple(kind for kind in COSTLY if kind not in ("anomaly_mode", "gradient_checked"))
    much = ("statistics_read", "statistics_kept", "forward_repeated")
    # Beside the explosions and anomaly mode: one of about 5 % of a bare step and one of about 15 %, where 10 % decide.
    limits = ["ranges_emitted", "launches_wait"]
    return [
        training_case(rng, "six aids", ["explosions_skipped", "first_step_checked", "anomaly_mode", *limits,
                                        *some(_ALONE[1:], 1)]),
        training_case(rng, "aids that work now and then",
                      ["gradient_checked", *some(rest, 1), "weights_summed", *some(_ALONE, 1)]),
        training_case(rng, "the same aid switched on twice",
                      ["anomaly_mode", "anomaly_mode", *some(CHEAP, 1), *some(_ALONE, 1)]),
        training_case(rng, "nothing to turn off", [*some(CHEAP, 2), *some(_ALONE, 2)]),
        # Beside one that costs much: a tenth of a step with what is needed here is more than a tenth of a bare one.
        training_case(rng, "a needed aid switched on twice", ["norm_logged", "norm_logged", *some(much, 1)]),
        training_case(rng, "an aid that adds to the lines of another", ["norm_logged", "ratio_added", *some(much, 1)]),
        training_case(rng, "one aid", some(COSTLY, 1)),
        training_case(rng, "no aids", []),
        training_case(rng, "any aids", [*some(COSTLY, int(rng.integers(1, 4))), *some(CHEAP, int(rng.integers(0, 2))),
                                        *some(_ALONE, int(rng.integers(0, 2)))]),
    ]
