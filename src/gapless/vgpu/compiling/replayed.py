"""A function that is run as graphs once it is warm, as ``torch.compile(mode="reduce-overhead")`` runs what it compiled.

The first call of a kind runs as written, the second captures a graph of the forward pass and one of the backward pass, and
from then on each is one launch (PyTorch, ``torch/_inductor/cudagraph_trees.py``: warm-up, recording, execution). Arguments
that are not static are copied into the memory of those that the graph was captured with, and results lie in memory that
the next call overwrites. Not modelled: the error that PyTorch raises where a program reads a result after that; one pool
for graphs that follow each other; copies of several arguments in one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch

from ..core.tensor import VirtualTensor
from .graphs import make_graphed_callables


class Replayed:
    """``function`` of tensors of the device and of other values; it gives a tensor or a tree of them.

    ``static``: places of arguments whose memory stays where it is, such as parameters and buffers; the function may write to
    these only. Others may have other values at each call. Another shape, dtype, other value or address of a static argument
    is another kind of call, with its own graphs. Raises what a capture raises: torch.AcceleratorError where the function
    waits."""

    def __init__(self, function: Callable, static: frozenset[int] = frozenset(), warm_up: int = 1):
        self._function, self._static, self._warm_up = function, static, warm_up
        self._calls: dict[Hashable, int] = {}
        self._graphed: dict[Hashable, Callable] = {}

    def __call__(self, *args):
        kind = (torch.is_grad_enabled(), *(self._kind(place, value) for place, value in enumerate(args)))
        graphed = self._graphed.get(kind)
        if graphed is None:
            calls = self._calls[kind] = self._calls.get(kind, 0) + 1
            if calls <= self._warm_up:
                return self._function(*args)
            graphed = self._graphed[kind] = self._captured(args)
        return graphed(*(value for value in args if isinstance(value, VirtualTensor)))

    def _kind(self, place: int, value) -> Hashable:
        if not isinstance(value, VirtualTensor):
            return value
        form = tuple(value.shape), value.stride(), value.dtype, value.requires_grad
        return (*form, value.data_ptr()) if place in self._static else form

    def _captured(self, args: tuple) -> Callable:
        places = [place for place, value in enumerate(args) if isinstance(value, VirtualTensor)]

        def of_tensors(*tensors):
            filled = list(args_without_tensors)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            return self._function(*filled)

        args_without_tensors = [None if isinstance(value, VirtualTensor) else value for value in args]
        samples = [args[place] if place in self._static
                   else args[place].detach().clone().requires_grad_(args[place].requires_grad) for place in places]
        return make_graphed_callables(of_tensors, tuple(samples), num_warmup_iters=0, allow_unused_input=True)
