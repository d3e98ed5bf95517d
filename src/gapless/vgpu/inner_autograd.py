"""Values and gradients, on inner tensors, of an operator that is caught where autograd begins.

PyTorch makes many operators of such a one, on the CPU or the meta device. No dispatch mode is to see them, such as the one
that counts operators on CPU tensors. Without values only the forms of the results matter, and those are remembered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from . import shapes


class Graph:
    """``function(*args)`` and the graph that autograd makes of it. ``leaves``: the tensors in ``args`` that there may be
    gradients by; those that require them have them. ``out``: the result."""

    def __init__(self, function: Callable, args: tuple, leaves: list[torch.Tensor]):
        self.function, self.args, self.leaves = function, args, leaves
        self._has_values = not shapes.has_no_values(args)
        with torch._C._DisableTorchDispatch(), torch.set_grad_enabled(any(leaf.requires_grad for leaf in leaves)):
            self.out = function(*args) if self._has_values else shapes.remembered(function, args, {})[0]

    def gradients(self, grads: tuple, keep: bool) -> list[torch.Tensor | None]:
        """The gradients by the leaves, from those of the results: None by one that requires none or plays no part. ``keep``:
        they will be asked for again."""
        with torch._C._DisableTorchDispatch():
            if self._has_values:
                return _gradients(self.out, self.leaves, grads, keep)
            wanted = tuple(leaf.requires_grad for leaf in self.leaves)
            return shapes.remembered(_forms_of_gradients(self.function), (*self.args, self.leaves, grads, wanted), {})[0]


@functools.cache
def _forms_of_gradients(function: Callable) -> Callable:
    def gradients(*args):
        *args, leaves, grads, _ = args
        with torch.enable_grad():
            return _gradients(function(*args), leaves, grads, False)

    return gradients


def _gradients(out, leaves: list[torch.Tensor], grads: tuple, keep: bool) -> list[torch.Tensor | None]:
    outs = [out] if isinstance(out, torch.Tensor) else out
    present = [(each, grad) for each, grad in zip(outs, grads) if grad is not None]
    found = iter(torch.autograd.grad([each for each, _ in present], [leaf for leaf in leaves if leaf.requires_grad],
                                     [grad for _, grad in present], retain_graph=keep, allow_unused=True))
    return [next(found) if leaf.requires_grad else None for leaf in leaves]
