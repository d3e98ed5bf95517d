"""Lesson 05: what is right, where the function as handed out is not."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.fx
from torch import nn

from .stage import CONVOLUTIONS

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)


def cancels(norm: nn.Module | None) -> bool:
    """Whether ``norm``, in the mode in which it is, subtracts each channel's own mean."""
    if isinstance(norm, nn.GroupNorm):
        return norm.num_groups == norm.num_channels
    return isinstance(norm, NORMS) and (norm.training or norm.running_mean is None)


def without_bias(model, images):
    """The model, without those biases of convolutions that a norm takes out again."""
    return drop(model)


def drop(model: nn.Module, kinds: tuple[type, ...] = CONVOLUTIONS, cancels: Callable[[nn.Module | None], bool] = cancels,
         most_users: Callable = all, alone: bool = True, fold: float = 1.0, most_calls: int | None = None) -> nn.Module:
    """``without_bias``, and what mistakes make of it: ``kinds`` of convolutions, norms that are said to cancel, whether all
    users of a convolution's output have to be such norms, whether a norm with running statistics may have other inputs,
    how much of the bias is taken from its running mean, how many calls of a convolution are looked at."""
    modules = dict(model.named_modules(remove_duplicate=False))
    calls: dict[nn.Module, list[torch.fx.Node]] = {}
    for node in torch.fx.Tracer().trace(model).nodes:
        if node.op == "call_module":
            calls.setdefault(modules[node.target], []).append(node)

    def called(node: torch.fx.Node) -> nn.Module | None:
        return modules[node.target] if node.op == "call_module" else None

    for conv, its_calls in calls.items():
        users = {called(user) for call in its_calls[:most_calls] for user in call.users}
        if not isinstance(conv, kinds) or conv.bias is None or not users or not most_users(map(cancels, users)):
            continue
        tracking = [norm for norm in users if getattr(norm, "running_mean", None) is not None]
        if alone and not all(called(call.args[0]) is conv for norm in tracking for call in calls[norm]):
            continue
        for norm in tracking:
            norm.running_mean.sub_(conv.bias.detach(), alpha=fold)
        conv.bias = None
    return model


def batches_of_few_shapes(images, batch_size, max_shapes):
    """Batches of at most ``max_shapes`` shapes: (B×C×H×W, mask B×H×W, indices), padded with zeros."""
    sizes = [each.shape[1:] for each in images]
    return [filled(images, indices, shape) for indices, shape in planned(sizes, batch_size, max_shapes)]


def planned(sizes: list[tuple[int, int]], batch_size: int, max_shapes: int, by: Callable = math.prod, rows: int | None = None
            ) -> list[tuple[list[int], tuple[int, int, int]]]:
    """(indices, B, H and W) of each batch: neighbours in size in one group, at most ``max_shapes`` groups."""
    order = sorted(range(len(sizes)), key=lambda i: by(sizes[i]))
    group = batch_size * -(-len(sizes) // (batch_size * max_shapes))
    found = []
    for start in range(0, len(order), max(group, 1)):
        members = order[start:start + group]
        height, width = (max(sizes[i][side] for i in members) for side in (0, 1))
        for first in range(0, len(members), batch_size):
            found.append((members[first:first + batch_size], (rows or batch_size, height, width)))
    return found


def filled(images, indices: list[int], shape: tuple[int, int, int], zero: float = 0) -> tuple:
    """A batch of that B, H and W, which holds the images of those indices in its first rows."""
    rows, height, width = shape
    batch = images[0].new_full((rows, images[0].shape[0], height, width), zero)
    mask = torch.zeros(rows, height, width, dtype=torch.bool, device=batch.device)
    for row, i in enumerate(indices):
        _, h, w = images[i].shape
        batch[row, :, :h, :w] = images[i]
        mask[row, :h, :w] = True
    return batch, mask, indices
