"""Lesson 08: networks whose weights are an exercise's inputs, and some numbers of a tensor, for those who compare two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

_COMPARED = 200  # numbers of a tensor, of more about as many


def sampled(tensor: torch.Tensor) -> torch.Tensor:
    """About 200 of the tensor's numbers, evenly spread; all where there are fewer. A view."""
    return tensor.detach().flatten()[::max(1, -(-tensor.numel() // _COMPARED))]


def drawn_weights(make: Callable[[], nn.Module], rng: np.random.Generator) -> list[np.ndarray]:
    """Float32 numbers for the parameters of the network that ``make()`` returns: matrices and filters by their fan-in (He et
    al. 2015), biases small, norms' weights around 1."""
    def drawn(name: str, parameter: nn.Parameter) -> np.ndarray:
        shape = tuple(parameter.shape)
        if len(shape) > 1:
            numbers = rng.normal(size=shape) * (2 / np.prod(shape[1:])) ** 0.5
        else:
            numbers = 0.1 * rng.normal(size=shape) if name.endswith("bias") else rng.uniform(0.5, 1.5, shape)
        return numbers.astype(np.float32)

    return [drawn(*named) for named in _on_meta(make).named_parameters()]


def full_weights(make: Callable[[], nn.Module], device: torch.device) -> list[torch.Tensor]:
    """As :func:`drawn_weights`, drawn on ``device``, all small."""
    return [0.02 * torch.randn(parameter.shape, device=device) for parameter in _on_meta(make).parameters()]


def with_weights(make: Callable[[], nn.Module], weights: list[torch.Tensor], device: torch.device) -> nn.Module:
    """The network that ``make()`` returns, on ``device``, its parameters in the memory of ``weights``. Tied parameters stay
    tied, norms' statistics begin anew."""
    model = _on_meta(make)
    given = {parameter: nn.Parameter(weight) for parameter, weight in zip(model.parameters(), weights, strict=True)}
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, given[parameter])
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.empty_like(buffer, device=device))
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.reset_running_stats()
    return model


def _on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.device("meta"):
        return make()
