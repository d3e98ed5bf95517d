"""``torch.compile(mode="reduce-overhead")``: from its second call on a compiled graph is one launch (a CUDA graph).

As in ``torch/_inductor/cudagraph_trees.py``: the first call with inputs of some shapes runs as without it, the second is
captured, later ones are launched again. A captured graph reads its inputs where they were, so those that may lie elsewhere
next time are copied to a place of their own first: all but parameters, buffers and what other such graphs have given. A
graph that has anything on the host, or writes into such an input, is not captured. Not modelled: that the next call
overwrites a graph's results, and that a graph keeps the memory of what it computes between.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.weak import WeakIdKeyDictionary

from ..core.tensor import VirtualTensor
from .compile_times import Graph

_results = WeakIdKeyDictionary()  # of such graphs


def _may_move(value) -> bool:
    return (isinstance(value, VirtualTensor) and not isinstance(value, torch.nn.Parameter)
            and not hasattr(value, "_dynamo_static_input_type") and value not in _results)


def _versions(tensors: list[torch.Tensor]) -> list[int]:
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


class Launches:
    """The calls of one compiled graph; ``run`` runs it as the :class:`Graph` that it is given."""

    def __init__(self, run: Callable, graph: Graph):
        self._run, self._graph = run, graph
        self._places: dict[tuple, list[torch.Tensor]] = {}  # shapes of the inputs that may move → where they are copied to
        self._writes = False

    def __call__(self, *args):
        moving = [value for value in args if _may_move(value)]
        key = tuple([(tensor.shape, tensor.stride()) for tensor in moving])
        places = self._places.get(key)
        if self._writes or places is None:
            before = _versions(moving)
            out = self._run(self._graph, *args)
            self._writes = self._writes or _versions(moving) != before
            self._places[key] = []
            return out
        with torch.no_grad():
            if not places:
                places += [torch.empty_like(tensor) for tensor in moving]
            if moving:
                torch._foreach_copy_(places, moving)
        out = self._run(self._graph._replace(captured=True), *args)
        for each in torch.utils._pytree.tree_leaves(out):
            if isinstance(each, VirtualTensor):
                _results[each] = True
        return out
