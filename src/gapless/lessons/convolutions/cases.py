"""Lesson 05: the inputs on which answers are compared, small and middling."""

from __future__ import annotations

import numpy as np

from ...course.evidence import Case
from ...course.exercise import Trial
from .norm_models import CHANNELS, NETWORKS
from .right import planned

# -- a bias before a norm ----------------------------------------------------------------------------

_SIDES = {"one dimension": (11,), "three dimensions": (5, 6, 4), "transposed, one dimension": (7,),
          "transposed, three dimensions": (3, 4, 2)}


def _network(rng: np.random.Generator, name: str, batch: int, sides: tuple[int, ...], kind=np.float32) -> Case:
    images = rng.normal(size=(batch, CHANNELS, *sides)).astype(kind)
    return Case(name, {"images": images}, {"network": name, "seed": int(rng.integers(2**31))})


def bias_cases(seed: int) -> list[Case]:
    """Every network once, one of them in float64."""
    rng = np.random.default_rng(seed)
    cases = [_network(rng, name, 4, _SIDES.get(name, (8, 8))) for name in NETWORKS if name != "wide"]
    double = _network(rng, "a residual connection around the norm", 3, (7, 5), np.float64)
    double.name += ", in float64"
    return [*cases, double]


def _bias_trial(rng: np.random.Generator, count: int) -> list[Case]:
    sides = int(rng.integers(28, 36)), int(rng.integers(28, 36))
    return [_network(rng, "wide", 4, sides) for _ in range(count)]


BIAS_TRIAL = Trial(_bias_trial, slowdown=300.0)


# -- batches of few shapes ---------------------------------------------------------------------------

SLACK = 1.2  # times the pixels of the worst of some plans that sort: one shape for all, or no sorting, has many more


def _sizes(rng: np.random.Generator, count: int, least: int, most: int) -> list[tuple[int, int]]:
    """Heights and widths of photographs: portrait and landscape, of all sizes."""
    sides = np.exp(rng.uniform(np.log(least), np.log(most), size=count))
    aspects = rng.uniform(0.85, 1.2, size=count)
    return [(max(1, round(side * aspect)), max(1, round(side / aspect))) for side, aspect in zip(sides, aspects)]


def _images(rng: np.random.Generator, name: str, sizes: list[tuple[int, int]], batch_size: int, max_shapes: int, *,
            channels: int = 3, kind=np.float32, dark: float = 0.0, trains: bool = False) -> Case:
    """``dark``: the share of pixels that are black; ``trains``: whether a network is trained on the batches."""
    shapes = [(channels, *size) for size in sizes]
    images = [(rng.integers(0, 256, size=shape) if kind is np.uint8 else rng.normal(size=shape)).astype(kind)
              * (rng.random(shape[1:]) >= dark).astype(kind) for shape in shapes]
    pixels = [sum(rows * height * width for _, (rows, height, width) in planned(sizes, batch_size, max_shapes, by))
              for by in (np.prod, max, lambda size: -np.prod(size), lambda size: -max(size))]
    options = {"batch_size": batch_size, "max_shapes": max_shapes, "most_pixels": int(SLACK * max(pixels)), "trains": trains}
    return Case(name, {"images": images}, {**options, "seed": int(rng.integers(2**31))})


def shape_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def sizes(count: int) -> list[tuple[int, int]]:
        return _sizes(rng, count, 3, 20)

    return [
        _images(rng, "twelve images, three shapes", sizes(12), 2, 3),
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


# -- memory format -----------------------------------------------------------------------------------

# Copies from one memory format into the other: cuDNN's, and PyTorch's as the virtual GPU names them.
TURNING_KERNELS = r"nchwToNhwc|nhwcToNchw|memory format|clone"


def _formatted(rng: np.random.Generator, name: str, shape: tuple[int, int, int], width: int, mixed_precision: bool = False,
               backward: bool = True) -> Case:
    batch, height, side = shape
    images = rng.normal(size=(batch, 8, height, side)).astype(np.float32)
    options = {"width": width, "mixed_precision": mixed_precision, "backward": backward, "seed": int(rng.integers(2**31))}
    return Case(name, {"images": images}, options)


def format_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _formatted(rng, "two images", (2, 6, 5), 4),
        _formatted(rng, "higher than wide", (3, 9, 4), 3),
        _formatted(rng, "one image", (1, 4, 7), 2),
        _formatted(rng, "rows of one pixel", (2, 5, 1), 4),
        _formatted(rng, "in mixed precision", (2, 6, 8), 8, mixed_precision=True),
    ]


def _format_trial(rng: np.random.Generator, count: int) -> list[Case]:
    height, side = rng.integers(15, 19, size=2).tolist()
    return [_formatted(rng, "images in mixed precision", (4, height, side), 16, True, backward=False)
            for _ in range(count)]


FORMAT_TRIAL = Trial(_format_trial, slowdown=500.0)
