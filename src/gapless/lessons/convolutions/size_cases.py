"""Lesson 05: networks whose sizes do not suit tensor cores."""

from __future__ import annotations

import numpy as np

from ...course.evidence import Case


def size_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, channels: list[int], hidden: list[int], classes: int, *, bias: bool = False, training: bool = True,
             images: int = 6) -> Case:
        side = int(rng.integers(5, 8))
        return Case(name, {"images": rng.normal(size=(images, 3, side, side)).astype(np.float32),
                           "labels": rng.integers(0, classes, size=images)},
                    {"network": {"channels": channels, "hidden": hidden, "classes": classes, "bias": bias,
                                 "seed": int(rng.integers(2**31))}, "training": training})

    def odd() -> int:
        return 16 * int(rng.integers(1, 3)) + int(rng.integers(1, 8))

    return [
        case("odd channels, ten classes", [odd(), odd()], [], 10),
        case("convolutions with a bias", [odd(), odd()], [odd()], 10, bias=True),
        case("all sizes are multiples of 8 already", [16, 24], [32], 8),
        case("only the classes are odd", [8, 16], [], 13),
        case("fewer than 8 of everything", [3, 5], [7], 2),
        case("one above a multiple of 8", [9, 17], [25], 33, bias=True),
        case("a network in evaluation mode", [odd()], [odd()], 10, training=False),
        case("one class, one image", [odd()], [], 1, training=False, images=2),
        case("linear layers only behind one convolution", [odd()], [odd(), odd()], 21),
    ]
