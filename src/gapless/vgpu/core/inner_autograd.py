"""Values and gradients, on inner tensors, of an operator that is caught where autograd begins.

PyTorch makes many operators of such a one, on the CPU or the meta device. No dispatch mode is to see them, such as the one
that counts operators on CPU tensors, and none of the program's hooks what autograd keeps of them: a checkpoint's would drop
it and compute the program again (``torch.utils.checkpoint`` with ``use_reentrant=False``). Without values only the forms of
the results matter, and those are remembered.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import torch

from . import shapes


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Neither dispatch modes nor hooks on what autograd keeps. The flag is the one that has them deferred while a program is
    traced (PyTorch, ``aten/src/ATen/SavedTensorHooks.cpp``); hooks that are there cannot be switched off otherwise."""
    before = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    try:
        with torch._C._DisableTorchDispatch():
            yield
    finally:
        torch._C._autograd._saved_tensors_hooks_set_tracing(before)


class Graph:
    """``function(*args)`` and the graph that autograd makes of it. ``leaves``: the tensors in ``args`` that there may be
    gradients by; those that require them have them. ``out``: the result."""

    def __init__(self, function: Callable, args: tuple, leaves: list[torch.Tensor]):
        self.function, self.args, self.leaves = function, args, leaves
        self._has_values = not shapes.has_no_values(args)
        with _apart(), torch.set_grad_enabled(any(leaf.requires_grad for leaf in leaves)):
            self.out = function(*args) if self._has_values else shapes.remembered(function, args, {})[0]

    def repeated(self, results: list[torch.Tensor]) -> Callable[[], None]:
        """What computes the values again, from what is in ``args`` by then, and writes them into ``results``: for a replay
        (:mod:`..compiling.capture`)."""

        def repeat() -> None:
            with _apart(), torch.set_grad_enabled(any(leaf.requires_grad for leaf in self.leaves)):
                self.out = self.function(*self.args)
            _write([self.out] if isinstance(self.out, torch.Tensor) else self.out, results)

        return repeat if self._has_values else _nothing

    def repeated_gradients(self, grads: tuple, results: list[torch.Tensor | None]) -> Callable[[], None]:
        """The same for :meth:`gradients`."""
        return (lambda: _write(self.gradients(grads, True), results)) if self._has_values else _nothing

    def gradients(self, grads: tuple, keep: bool) -> list[torch.Tensor | None]:
        """The gradients by the leaves, from those of the results: None by one that requires none or plays no part. ``keep``:
        they will be asked for again."""
        with _apart():
            if self._has_values:
                return _gradients(self.out, self.leaves, grads, keep)
            wanted = tuple(leaf.requires_grad for leaf in self.leaves)
            return shapes.remembered(_forms_of_gradients(self.function), (*self.args, self.leaves, grads, wanted), {})[0]


def _nothing() -> None:
    """Without values there is nothing to compute."""


def _write(values, into) -> None:
    with torch.no_grad():
        for value, kept in zip(values, into):
            if value is not None and kept is not None:
                kept.copy_(value)


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
