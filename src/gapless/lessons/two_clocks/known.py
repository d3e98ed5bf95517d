"""Lesson 00: a network of full size whose answers are known, so that what is logged of it can be checked."""

from __future__ import annotations

import torch
from torch import nn

from ... import vgpu


class KnownNetwork(nn.Module):
    """``network``, with its work and its parameters, that answers with ``answer`` (N×1, with values) whatever it is given.
    Its gradients are zeros: it learns nothing. On the virtual GPU ``network`` need not have values."""

    def __init__(self, network: nn.Module, answer: torch.Tensor):
        super().__init__()
        self.network = network
        self._answer, self._gradient = answer, torch.zeros(answer.shape, device=answer.device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "vgpu":
            # The same storages as tensor objects of their own: the clock does not notice.
            x = vgpu.VirtualTensor(x.inner.to("meta"), x.allocation)
            answer = vgpu.VirtualTensor(self._answer.inner, self._answer.allocation)
        else:
            answer = self._answer.detach()
        return _Replace.apply(self.network(x), lambda: answer, self._gradient)


class _Replace(torch.autograd.Function):
    """In place of ``found`` what ``answer()`` returns; backwards, ``gradient`` in place of its gradient. No kernels."""

    @staticmethod
    def forward(ctx, found, answer, gradient):
        ctx.gradient = gradient
        return answer()

    @staticmethod
    def backward(ctx, _):
        return ctx.gradient, None, None
