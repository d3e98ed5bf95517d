"""Lesson 05: the inputs of ``batches_of_few_shapes``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from .right import planned

SLACK = 1.2  # times the pixels of the worst of the plans that the task names: one shape for all, or no sorting, has more


def _sizes(rng: np.random.Generator, count: int, least: int, most: int) -> list[tuple[int, int]]:
    """Heights and widths of photographs: portrait and landscape, of all sizes."""
    sides = np.exp(rng.uniform(np.log(least), np.log(most), size=count))
    aspects = rng.uniform(0.85, 1.2, size=count)
    return [(max(1, round(side * aspect)), max(1, round(side / aspect))) for side, aspect in zip(sides, aspects)]


def _images(rng: np.random.Generator, name: str, sizes: list[tuple[int, int]], batch_size: int, max_shapes: int, *,
            channels: int = 3, kind=np.float32, dark: float = 0.0, trains: bool = False, again: bool = False) -> Case:
    """``dark``: the share of pixels that are black; ``trains``: whether a network is trained on the batches; ``again``:
    whether the function is called twice."""
    shapes = [(channels, *size) for size in sizes]
    images = [(rng.integers(0, 256, size=shape) if kind is np.uint8 else rng.normal(size=shape)).astype(kind)
              * (rng.random(shape[1:]) >= dark).astype(kind) for shape in shapes]
    pixels = [sum(rows * height * width for _, (rows, height, width) in planned(sizes, batch_size, max_shapes, by))
              for key in (np.prod, max, lambda size: (size[0] > size[1], np.prod(size)))
              for by in (key, lambda size, key=key: tuple(-np.atleast_1d(key(size))))]
    options = {"batch_size": batch_size, "max_shapes": max_shapes, "most_pixels": int(SLACK * max(pixels)), "trains": trains,
               "again": again}
    return Case(name, {"images": images}, {**options, "seed": int(rng.integers(2**31))})


def shape_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def sizes(count: int) -> list[tuple[int, int]]:
        return _sizes(rng, count, 3, 20)

    return [
        _images(rng, "twelve images, three shapes", sizes(12), 2, 3, again=True),
        _images(rng, "a small last batch", sizes(11), 4, 2),
        _images(rng, "one shape for all", sizes(9), 3, 1),
        _images(rng, "as many shapes as batches", sizes(8), 2, 4),
        _images(rng, "more shapes than batches", sizes(5), 2, 9),
        _images(rng, "one image", sizes(1), 4, 2),
        _images(rng, "fewer images than a batch holds", sizes(3), 8, 2),
        _images(rng, "batches of one", sizes(7), 1, 3),
        _images(rng, "all of one size", [(7, 9)] * 6, 2, 3),
        _images(rng, "sorted the wrong way round", sorted(sizes(10), reverse=True), 3, 2),
        _images(rng, "one image much larger than the others", [*sizes(9), (40, 37)], 2, 3),
        _images(rng, "a single pixel among them", [*sizes(7), (1, 1)], 4, 2),
        _images(rng, "grey images", sizes(9), 3, 2, channels=1),
        _images(rng, "bytes", sizes(9), 3, 2, kind=np.uint8),
        _images(rng, "dark images", sizes(7), 3, 2, dark=0.7),
        _images(rng, "in float16", sizes(9), 3, 2, kind=np.float16),
        _images(rng, "in float64", sizes(9), 3, 2, kind=np.float64),
    ]


def _shape_trial(rng: np.random.Generator, count: int) -> list[Case]:
    return [_images(rng, "photographs", _sizes(rng, 14, 8, 20), 2, 2, trains=True) for _ in range(count)]


SHAPE_TRIAL = Trial(_shape_trial, slowdown=20.0)
