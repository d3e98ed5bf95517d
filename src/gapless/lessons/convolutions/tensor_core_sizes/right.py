"""Lesson 05: what is right for ``tensor_core_sizes``."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn


def right_sizes(model):
    """Every size but the images' channels becomes a multiple of 8: zeros are appended, and cut off from the outputs."""
    return padded_network(model, lambda size: -(-size // 8) * 8)


def padded_network(model: nn.Sequential, wanted: Callable[[int], int], fill: Callable = torch.zeros, first: bool = False,
                   places: Callable[[int, int], slice] = lambda size, padded: slice(0, size),
                   cut: Callable[[int], slice] | None = lambda classes: slice(0, classes)) -> nn.Sequential:
    """The network with each size made as large as is ``wanted``, in a new network. ``fill(*shape)``: what is put in;
    ``first``: the images' channels too; ``places(size, padded)``: where among the padded the old ones are; ``cut``: the
    classes among the outputs."""
    classes = model[-1].out_features

    def grown(tensor: torch.Tensor, keep: bool) -> torch.Tensor:
        sizes = [wanted(size) if place == 0 or (place == 1 and not keep) else size
                 for place, size in enumerate(tensor.shape)]
        made = fill(*sizes).to(tensor)
        made[tuple(places(size, padded) for size, padded in zip(tensor.shape, sizes))] = tensor
        return made

    layers: list[nn.Module] = []
    if first:
        channels = model[0].in_channels
        layers.append(nn.ConstantPad3d((0, 0, 0, 0, 0, wanted(channels) - channels), 0.0))
    for number, layer in enumerate(model):
        layer = copy.deepcopy(layer)
        for name, parameter in list(layer.named_parameters(recurse=False)):
            setattr(layer, name, nn.Parameter(grown(parameter.detach(), number == 0 and not first),
                                               parameter.requires_grad))
        for name, buffer in list(layer.named_buffers(recurse=False)):
            if buffer.dim():
                setattr(layer, name, grown(buffer, False))
        layers.append(layer)
    padded = nn.Sequential(*layers, *([] if cut is None else [_Cut(cut(classes))]))
    padded.training = model.training  # and each layer's mode stays
    return padded


class _Cut(nn.Module):
    """Some of the outputs."""

    def __init__(self, which: slice):
        super().__init__()
        self.which = which

    def forward(self, x):
        return x[:, self.which]
