"""A backward pass runs each operator on the stream of its forward operator, as PyTorch's engine does on CUDA.

"Each backward CUDA op runs on the same stream that was used for its corresponding forward op", and the engine lets
streams wait where a gradient passes from one to another, at the beginning for the caller's stream, and at the end the
caller's for all (PyTorch's notes, "CUDA semantics", "stream semantics of backward passes"). PyTorch asks the device guard
for streams, which a backend in Python cannot fill; here the numbers of autograd's nodes tell.

Not modelled: two branches of a graph on two streams run one after another, since at each change the one stream waits for the
other. A gradient is added to ``.grad`` on the caller's stream.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager

import torch

from ..process.state import state

_MOST_NODES = 20_000  # more than a step has
_ACCUMULATES = 2**64 - 1  # the number of every AccumulateGrad node, which no forward operator made


class _Passes(threading.local):
    """Autograd numbers its nodes in each thread by itself."""

    def __init__(self):
        self.forward: dict[int, int] = {}  # number of a node → number of its operator's stream
        self.node = None  # the node whose operators run
        self.caller = self.chosen = None  # the stream that called backward, and the one chosen since
        self.used: list = []


_passes = _Passes()


def follow() -> None:
    """An operator begins: choose its stream, or remember it for the backward pass."""
    node, timeline = torch._C._current_autograd_node(), state.timeline
    if node is None or torch.is_grad_enabled():  # the operators of an autograd.Function run without gradients
        forward = _passes.forward
        if len(forward) >= _MOST_NODES:
            del forward[next(iter(forward))]  # the oldest
        # A node takes its number just before its operator runs; later operators without a node find it taken.
        forward.setdefault(torch.autograd._get_sequence_nr() - 1, timeline.current.number)
    # A hook may choose a stream of its own: that is left alone.
    if node is None or node is _passes.node or _passes.caller is None or timeline.current is not _passes.chosen:
        return
    _passes.node = node
    number, default = node._sequence_nr(), timeline.streams[timeline.DEFAULT_STREAM]
    stream = _passes.caller if number == _ACCUMULATES else timeline.streams.get(_passes.forward.get(number), default)
    if stream is not timeline.current:
        timeline.stream_wait_event(timeline.record_event(), stream)
        timeline.current = _passes.chosen = stream
        _passes.used.append(stream)


@contextmanager
def backward_pass():
    """Around a backward pass: afterwards the caller's stream waits for those of the pass."""
    timeline = state.timeline
    before = _passes.node, _passes.caller, _passes.chosen, _passes.used
    _passes.node, _passes.used = None, []
    _passes.caller = _passes.chosen = caller = timeline.current
    try:
        yield
    finally:
        for stream in _passes.used:
            timeline.stream_wait_event(timeline.record_event(stream), caller)
        timeline.current = caller
        _passes.node, _passes.caller, _passes.chosen, _passes.used = before
