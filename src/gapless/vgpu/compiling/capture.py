"""What a graph under capture does to values: nothing until it is replayed, and then all of it again.

While work is captured its operators are computed, since shapes follow from that, but nothing of it stays. When the
capture ends memory that was there before holds what it held, generators of random numbers are in the state that they
were in, and memory that was made meanwhile holds what stands for uninitialised memory
(:func:`..ordering.pinned.spoil`): on CUDA it holds what happens to be there. A replay runs the operators again, on the
same memory, whatever is in it by then, and writes what they give into the memory that was made for it: inputs and
outputs are static.

Who reads memory of a capture under way from a stream that is not captured gets an error; on CUDA, what happens to be there.
"""

# mypy: disable-error-code="attr-defined"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..core.dispatch import Operator, run
from ..core.tensor import VirtualTensor
from ..hardware.clock.timeline import Timeline
from ..hardware.kernels import costs
from ..hardware.memory.memory import Memory
from ..ordering import arrivals
from ..ordering.pinned import spoil, without_values
from ..process.state import state

_COPIES = ("copy_", "_to_copy")  # they read the host's memory again in each replay
_REMOTE = "a graph of a device in another process cannot copy from or to the host: copy before and after the replay"
_ENDLESS = 2**62  # bytes, and ns: a replay's values take no memory of the card and no time beyond the launch's

# A tensor of memory that the graph keeps has no part in what the card counts.
_nowhere = Memory(_ENDLESS)
_uncounted = _nowhere.allocate(0)


def _twin(value):
    """``value`` with wrappers that hold their values and no memory of the card."""
    if isinstance(value, VirtualTensor):
        # A tensor of its own on the same memory: `squeeze_` and its kind change the shape of the program's.
        return VirtualTensor(value.within.detach(), _uncounted) if value.layout is torch.strided else value
    if type(value) in (list, tuple):
        return type(value)([_twin(each) for each in value])
    if type(value) is dict:
        return {name: _twin(each) for name, each in value.items()}
    return value


def _by_value(value):
    """``value`` with copies of the host's numbers (CPU tensors without dimensions): an operator's kernel gets them as they
    are when it is launched, and a graph keeps what it got."""
    if isinstance(value, torch.Tensor):
        return value if isinstance(value, VirtualTensor) or value.dim() else value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)([_by_value(each) for each in value])
    if type(value) is dict:
        return {name: _by_value(each) for name, each in value.items()}
    return value


def _take_over(kept, found) -> None:
    """Into the memory of ``kept``, what an operator gave at the capture: what it gives now."""
    if isinstance(kept, VirtualTensor):
        if kept.within is not found.within and kept.within.data_ptr() != found.within.data_ptr():
            kept.within.copy_(found.within)
    elif isinstance(kept, (list, tuple)):
        for old, new in zip(kept, found, strict=True):
            _take_over(old, new)


class _Call:
    """An operator of the graph. ``arriving``: after a call, memory of the host and what a copy brings there."""

    def __init__(self, operator: Operator, args: tuple, kwargs: dict, result):
        self.arriving: list[tuple[torch.Tensor, torch.Tensor]] = []
        if self._is_on_host(result) and args and args[0] is result:
            args = without_values(result), *args[1:]  # what is written only when the copy is done
        elif operator.name not in _COPIES:
            args, kwargs = _by_value(args), _by_value(kwargs)
        self.operator, self.args, self.kwargs, self.result = operator, _twin(args), _twin(kwargs), _twin(result)

    @staticmethod
    def _is_on_host(result) -> bool:
        return isinstance(result, torch.Tensor) and not isinstance(result, VirtualTensor)

    def __call__(self) -> None:
        operator = self.operator
        with torch._C._AutoDispatchBelowAutograd():
            found = (run if operator.handler is None else operator.handler)(operator, self.args, self.kwargs)
        if self._is_on_host(found):
            state.timeline.host_work(_ENDLESS)  # it arrives
            self.arriving = [(self.result, found.clone())]
        else:
            _take_over(self.result, found)


class Tape:
    """What a graph under capture computes, until :meth:`end`. ``generators``: those of random numbers that it may draw from;
    ``is_remote``: whether the program is in another process, and the host's memory with it."""

    def __init__(self, generators: list[torch.Generator], is_remote: bool = False):
        self.is_remote = is_remote
        state.tape = self
        self.calls: list[Callable[[], None]] = []
        self._random = [(each, each.get_state()) for each in generators]
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # memory → its bytes, and what they were
        self._made: dict[int, torch.Tensor] = {}  # memory made meanwhile → a tensor that lies there

    # -- while it is captured ---------------------------------------------------------------------

    def begins(self, operator: Operator, args: tuple, kwargs: dict) -> bool:
        """``operator`` is about to run; whether to note it when it has."""
        timeline = state.timeline
        if operator.is_view and operator.handler is None:
            return False
        capture, tensors = timeline.capture, costs.tensors(args, kwargs)
        if capture is None:  # the clocks were set to zero meanwhile
            self.end()
            return False
        if not capture.takes(timeline.current):
            if any(isinstance(each, VirtualTensor) and self._key(each.within) in self._made for each in tensors):
                raise RuntimeError(f"{operator.full_name} uses memory of a graph under capture, on a stream that is not "
                                   "captured: nothing is in it before the graph is replayed")
            return False
        capture.check()
        for each in tensors:
            if each.layout is not torch.strided or each.is_nested:
                raise NotImplementedError(f"{operator.full_name}: sparse and nested tensors are not supported while a graph "
                                          "is captured: use a dense one")
            if self.is_remote and each.dim() and not isinstance(each, VirtualTensor):
                raise NotImplementedError(f"{operator.full_name}: {_REMOTE}")
        generator = kwargs.get("generator")
        if generator is not None and all(generator._cdata != known._cdata for known, _ in self._random):
            # ATen, cuda/CUDAGeneratorImpl.cpp
            raise RuntimeError("Attempt to increase offset for a CUDA generator not in capture mode.")
        if timeline.nested:
            return False  # a part of one that is noted
        for each in tensors:
            self._keep(each)
        return True

    def note(self, operator: Operator, args: tuple, kwargs: dict, result) -> None:
        """It has run, and gave ``result``."""
        found = costs.tensors(result)
        if self.is_remote and not all(isinstance(each, VirtualTensor) for each in found):
            raise NotImplementedError(f"{operator.full_name}: {_REMOTE}")
        self.makes(found)
        if not operator.is_empty and not all(self._is_unknown(each) for each in (found or costs.tensors(args))):
            self.calls.append(_Call(operator, args, kwargs, result))

    def repeats(self, call: Callable[[], None], results: list[torch.Tensor]) -> None:
        """What is caught where autograd begins has run, and gave ``results``: ``call`` writes into their memory what it
        would give then."""
        if state.timeline.is_captured(state.timeline.current):
            self.makes(results)
            self.calls.append(call)

    def makes(self, tensors: list) -> None:
        """Memory that may be new."""
        for each in filter(lambda each: each is not None, tensors):
            inner = each.within if isinstance(each, VirtualTensor) else each
            if not inner.is_meta and self._key(inner) not in self._before:
                self._made.setdefault(self._key(inner), inner)

    @staticmethod
    def _is_unknown(tensor: torch.Tensor) -> bool:
        return (tensor.within if isinstance(tensor, VirtualTensor) else tensor).is_meta

    @staticmethod
    def _key(inner: torch.Tensor) -> int:
        return inner.untyped_storage()._cdata

    def _keep(self, tensor: torch.Tensor) -> None:
        inner = tensor.within if isinstance(tensor, VirtualTensor) else tensor
        if inner.is_meta or not inner.numel():
            return
        key = self._key(inner)
        if key not in self._before and key not in self._made:
            held = _bytes(inner)
            self._before[key] = held, held.clone()

    def end(self) -> None:
        """Put back what was there before."""
        state.tape = None
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            for held, content in self._before.values():
                if held.numel() == content.numel():
                    held.copy_(content)
            for inner in self._made.values():
                if inner.numel() and inner.layout is torch.strided:
                    spoil(inner.detach().new_empty(0).set_(inner.untyped_storage()))
            for generator, before in self._random:
                generator.set_state(before)
        self._before.clear()
        self._made.clear()

    # -- afterwards -------------------------------------------------------------------------------

    def play(self, end_ns: int) -> None:
        """Compute all of it again; what it copies to the host arrives at ``end_ns``."""
        arriving: list[tuple[torch.Tensor, torch.Tensor]] = []
        with _at_no_time(), _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast():
            for call in self.calls:
                call()
                arriving += getattr(call, "arriving", ())
        for host, values in arriving:
            arrivals.copy_out(values, host, end_ns)


def _bytes(inner: torch.Tensor) -> torch.Tensor:
    """All of the memory that ``inner`` lies in, uint8."""
    with torch._C._DisableTorchDispatch():
        return torch.empty(0, dtype=torch.uint8).set_(inner.untyped_storage())


@contextmanager
def _at_no_time() -> Iterator[None]:
    """Inside, operators compute values, and that is all that they do."""
    before = state.timeline, state.memory, state.shape_only, state.keeps_lines, state.regions, state.region
    timeline = Timeline(state.card)
    timeline.host_ns = _ENDLESS  # whatever is asked for is done
    state.timeline, state.memory, state.shape_only, state.keeps_lines = timeline, _nowhere, None, False
    state.regions = state.region = None
    try:
        yield
    finally:
        state.timeline, state.memory, state.shape_only, state.keeps_lines, state.regions, state.region = before


