"""Lesson 03: the inputs of ``update_loss``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case


def loss_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, count: int, *, kind=np.float32, at: dict | None = None, images=None, **options) -> Case:
        """``at``: place → loss there; ``images``: of each batch."""
        losses = rng.uniform(0.5, 7.0, size=count).astype(kind)
        for place, loss in (at or {}).items():
            losses[place] = loss
        if images is None:
            images = np.full(count, 2 ** rng.integers(2, 8))
            images[-1] = rng.integers(1, 4)
        return Case(name, {"losses": losses}, {"batches": [int(each) for each in images], **options},
                    most_waits=np.inf if np.isnan(losses).any() else 2 * count)  # a NaN is warned of, and counted

    nan, inf = np.nan, np.inf
    return [
        case("a small last batch", 5),
        case("two batches", 2),
        case("one batch", 1),
        case("one loss is NaN", 6, at={int(rng.integers(5)): nan}),
        case("every loss is NaN", 2, at={0: nan, 1: nan}),
        case("thirty batches of any size", 30, images=rng.integers(1, 200, size=30)),
        case("batches of up to 2000 images", 4, images=[*rng.integers(200, 2001, size=2), 1024, 2000]),
        case("an empty batch, whose mean loss is NaN", 4, at={1: nan}, images=[8, 0, 8, 3]),
        case("an empty batch alone", 1, images=[0]),
        case("a batch without images, and a loss", 3, images=[6, 0, 2]),
        case("a loss of 0, and one below 0", 4, at={0: 0.0, 1: -2.5}),
        case("one loss is inf", 3, at={1: inf}),
        case("losses in float16", 5, kind=np.float16, images=[*rng.integers(200, 2001, size=3), 48, 7]),
        case("losses in float64", 5, kind=np.float64),
        case("losses in float64, and so is the metric", 4, kind=np.float64, at={0: 3e200, 2: 1e200}, dtype="float64"),
    ]
