"""Lesson 08: what the inputs of several exercises share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from ...course.stage import Given
from .stage import TokenNetwork, on_meta


def drawn_weights(make: Callable[[], nn.Module], rng: np.random.Generator) -> list[np.ndarray]:
    """Float32 numbers for the parameters of the network that ``make()`` returns: matrices and filters by their fan-in (He et
    al. 2015), biases small, norms' weights around 1."""
    def drawn(name: str, parameter: nn.Parameter) -> np.ndarray:
        shape = tuple(parameter.shape)
        if len(shape) > 1:
            numbers = rng.normal(size=shape) * (2 / np.prod(shape[1:])) ** 0.5
        else:
            numbers = 0.1 * rng.normal(size=shape) if name.endswith("bias") else rng.uniform(0.5, 1.5, shape)
        return np.asarray(numbers, np.float32)

    return [drawn(*named) for named in on_meta(make).named_parameters()]


def full_weights(make: Callable[[], nn.Module], device: torch.device) -> list[torch.Tensor]:
    """As :func:`drawn_weights`, drawn on ``device``, all small."""
    return [0.02 * torch.randn(parameter.shape, device=device) for parameter in on_meta(make).parameters()]


IGNORED = -100  # a label that is not to be predicted


def draw_batches(rng: np.random.Generator, count: int, rows: int, length: int, words: int, ignored: float) -> dict:
    """``count`` batches of ``rows`` sequences; of each sequence's labels a share of ``ignored`` on average, and nowhere all
    of a batch's, is not to be predicted."""
    tokens = rng.integers(0, words, size=(count, rows, length))
    labels = rng.integers(0, words, size=(count, rows, length))
    shares = np.clip(rng.normal(ignored, 0.3, size=(count, rows, 1)), 0, 1) if ignored else np.zeros((count, rows, 1))
    kept = rng.random(size=labels.shape) >= shares
    kept[:, :1, :1] = True
    return {"tokens": list(tokens), "labels": list(np.where(kept, labels, IGNORED))}


def given(rng: np.random.Generator, sizes: tuple[int, int, int], batches: dict) -> dict:
    return {"weights": drawn_weights(lambda: TokenNetwork(*sizes), rng), **batches}


def full(device: torch.device, sizes: tuple[int, int, int], rows: int, length: int, options: dict) -> Callable[[], Given]:
    tokens, labels = (torch.randint(0, sizes[0], (rows, length), device=device) for _ in range(2))
    inputs = {"weights": full_weights(lambda: TokenNetwork(*sizes), device), "tokens": [tokens], "labels": [labels]}
    return lambda: Given(inputs, options | {"sizes": list(sizes)})
