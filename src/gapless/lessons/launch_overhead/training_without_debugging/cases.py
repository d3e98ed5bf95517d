"""Lesson 06: trainings with debug aids, the set drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ....course.evidence import Case
from .stage import CLASSES, FEATURES, WIDTH

# By what they cost where a step is as short as here; a test measures it. What NORM_KEPT costs is 14 % of a step of two
# layers, and 8.6 % of one of four: 10 % decide.
COSTLY = ("anomaly_mode", "launches_wait", "statistics_read", "statistics_kept", "forward_repeated", "gradient_checked")
CHEAP = ("first_step_checked", "ranges_emitted", "shapes_checked", "weights_summed")
NEEDED = ("explosions_skipped", "norm_logged", "repeatable", "ratio_added")
NORM_KEPT = "norm_kept"
_ALONE = NEEDED[:-1]  # the last one is needed only beside an aid that writes lines
_ROWS, _BATCHES = 12, 5
_WORDS = ("dbg", "check", "trace", "verify", "aid", "extra", "opt", "flag")


def training_case(rng: np.random.Generator, name: str, kinds: list[str], layers: int = 2) -> Case:
    """Its aids in any order, their names saying nothing. One batch is so large that its gradients explode."""
    words = rng.permutation([f"{word}_{number}" for word in _WORDS for number in (1, 2)])
    drawn = {str(word): str(kind) for word, kind in zip(words, rng.permutation(kinds))} if kinds else {}
    x = rng.normal(size=(_BATCHES, _ROWS, FEATURES)).astype(np.float32)
    x[int(rng.integers(1, 3))] *= 30
    sizes = [FEATURES, *[WIDTH] * (layers - 1), CLASSES]
    weights = [(0.3 * rng.normal(size=shape)).astype(np.float32)
               for of, to in pairwise(sizes) for shape in ((to, of), (to,))]
    return Case(name, {"weights": weights, "x": list(x), "y": list(rng.integers(0, CLASSES, size=(_BATCHES, _ROWS)))},
                {"kinds": drawn, "every": 3})


def costly(case: Case) -> list[str]:
    """The aids of a training that cost too much there."""
    kinds, layers = case.options["kinds"], len(case.inputs["weights"]) // 2
    return [name for name, kind in kinds.items() if kind in COSTLY or (kind == NORM_KEPT and layers < 4)]


def debug_cases(seed: int) -> list[Case]:
    """Of few aids: each of them takes two runs of a right function."""
    rng = np.random.default_rng(seed)

    def some(of: tuple[str, ...]) -> str:
        return str(rng.choice(of))

    much = ("statistics_read", "statistics_kept", "forward_repeated")
    return [
        # Beside the explosions and anomaly mode: one of at most 5 % of a bare step and one of about 15 %.
        training_case(rng, "four aids", ["explosions_skipped", "anomaly_mode", some(("ranges_emitted", "shapes_checked")),
                                         "launches_wait"]),
        training_case(rng, "aids that work now and then, and one switched on twice",
                      ["gradient_checked", "weights_summed", "anomaly_mode", "anomaly_mode", some(_ALONE)]),
        training_case(rng, "nothing to turn off", ["first_step_checked", some(_ALONE)]),
        # Beside one that costs much: a tenth of a step with what is needed here is more than a tenth of a bare one.
        training_case(rng, "a needed aid switched on twice, and one that adds to its lines",
                      ["norm_logged", "norm_logged", "ratio_added", some(much)]),
        training_case(rng, "one aid, two layers", [NORM_KEPT], 2),
        training_case(rng, "one aid, four layers", [NORM_KEPT], 4),
        training_case(rng, "no aids", []),
    ]
