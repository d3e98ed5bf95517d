"""Lesson 05: what is right for ``without_bias``."""

from __future__ import annotations

from collections.abc import Callable

import torch.fx
from torch import nn

from ..stage import CONVOLUTIONS

INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, *INSTANCE_NORMS)


def cancels(norm: nn.Module | None) -> bool:
    """Whether ``norm``, in the mode in which it is, subtracts each channel's own mean."""
    if isinstance(norm, nn.GroupNorm):
        return norm.num_groups == norm.num_channels
    return isinstance(norm, NORMS) and (norm.training or norm.running_mean is None)


def without_bias(model, images):
    """The model, without those biases of convolutions that a norm takes out again."""
    return drop(model)


def drop(model: nn.Module, kinds: tuple[type, ...] = CONVOLUTIONS, cancels: Callable[[nn.Module | None], bool] = cancels,
         most_users: Callable = all, alone: bool = True, fold: float = 1.0, most_calls: int | None = None,
         detached: bool = True) -> nn.Module:
    """``without_bias``, and what mistakes make of it: ``kinds`` of convolutions, norms that are said to cancel, whether all
    users of a convolution's output have to be such norms, whether a norm with running statistics may have other inputs,
    how much of the bias is taken from its running mean and whether without its graph, how many calls of a convolution are
    looked at."""
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
            norm.running_mean.sub_(conv.bias.detach() if detached else conv.bias, alpha=fold)
        conv.bias = None
    return model
