"""Lesson 03: the inputs of ``collect``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ..cases import Batches, draw, logits_and_labels, varied_in_all


def batch_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, batches: Batches, options: dict | None = None) -> Case:
        return Case(name, {"outputs": [logits for logits, _ in batches], "targets": [targets for _, targets in batches]},
                    options or {}, most_waits=20 + 2 * len(batches))

    return [*(case(name, *drawn) for name, drawn in draw(rng).items()), *varied_in_all(rng, case),
            case("twenty batches", [logits_and_labels(rng, (6,)) for _ in range(20)])]
