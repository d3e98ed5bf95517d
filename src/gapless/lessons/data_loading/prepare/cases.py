"""Lesson 04: the inputs of ``prepare``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from ....course.variants import CONTIGUOUS, covering, varied
from ..workload import BATCH, CHANNELS, SIDE

# B×C×H×W. Where a side is as long as there are channels, a mean in the wrong dimension is no error.
_IMAGES = ((2, 3, 5, 7), (2, 3, 4, 3), (4, 1, 6, 6), (3, 4, 3, 4), (1, 3, 1, 1), (3, 3, 3, 3), (0, 3, 5, 5))
# A mean in half precision: whether the images are then, too, the task does not say.
_DTYPES = ("float32", "float64")
ANOTHER = "another mean and std than before"
_VALUES = ("any bytes", "black", "white", "dark")


def _images(rng: np.random.Generator, shape: tuple[int, ...], values: str = "any bytes") -> np.ndarray:
    low, high = {"any bytes": (0, 256), "black": (0, 1), "white": (255, 256), "dark": (0, 20)}[values]
    return rng.integers(low, high, size=shape).astype(np.uint8)


def _image_case(rng: np.random.Generator, name: str, images: np.ndarray, spread: float = 1.0) -> Case:
    channels = images.shape[1]
    return Case(name, {"images": images, "mean": rng.uniform(0.2, 0.7, size=channels).astype(np.float32),
                       "std": (spread * rng.uniform(0.1, 0.4, size=channels)).astype(np.float32)},
                on_host={"images": "pinned"})


def image_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    # Of one shape, with another mean and std: nothing may be kept from the one to the other.
    plain = [_image_case(rng, name, _images(rng, _IMAGES[0])) for name in ("images", ANOTHER)]
    small = _image_case(rng, "channels whose standard deviation is small", _images(rng, (2, 3, 4, 5)), 0.005)
    return [*plain, *(varied(_image_case(rng, f"{'×'.join(map(str, pick['shape']))}, {pick['values']}",
                                         _images(rng, pick["shape"], pick["values"])), pick["dtype"], pick["layout"])
                      for pick in covering(rng, shape=_IMAGES, values=_VALUES, dtype=_DTYPES,
                                           layout=(CONTIGUOUS, "channels_last", "transposed", "strided"))), small]


def _image_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = int(rng.integers(28, 36)), CHANNELS, int(rng.integers(28, 36)), int(rng.integers(28, 36))
    return [varied(_image_case(rng, "images", _images(rng, shape)), layout=(CONTIGUOUS, "channels_last")[number % 2])
            for number in range(count)]


def full_images(device: torch.device) -> Callable[[], Given]:
    images = torch.zeros(BATCH, CHANNELS, SIDE, SIDE, dtype=torch.uint8).pin_memory()
    mean, std = torch.full((CHANNELS,), 0.5, device=device), torch.full((CHANNELS,), 0.25, device=device)
    return lambda: Given({"images": images, "mean": mean, "std": std})


IMAGE_TRIAL = Trial(_image_trial, slowdown=BATCH / 32 * SIDE**2 / 32**2)
