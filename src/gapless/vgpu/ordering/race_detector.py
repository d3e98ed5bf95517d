"""Races: two uses of the same memory, one of them a write, that nothing orders. On a GPU either may come first.

    with vgpu.races("raise"):
        step()

Where a program has a second stream, each use of a tensor is compared with the uses before it on other streams. One use
comes before another if both are on one stream, if the stream of the later waits for an event behind the earlier one
(``wait_event``, ``wait_stream``), or if the host has waited for the earlier one (``synchronize()``, a blocking copy, a
``query()`` that says yes) before it launched the later. What the clocks say is no order. Memory that is freed while another
stream uses it goes to the next tensor of the stream that it came from, unless ``record_stream`` keeps it back. Copies
between the device and pinned memory: :mod:`.arrivals`.

Uses are compared by their bytes: two halves of a tensor are two pieces of memory. Of the time before the program had a
second stream only the last write of each tensor is known, without its line, unless :func:`races` was around it. Not seen:
uses of pageable memory, what the host does with a CPU tensor, what an operator changes without its schema saying so (running
means), more than 64 uses of one block of memory.
"""

# mypy: disable-error-code="arg-type, assignment"
# A problem is a convolution's or one of its passes, and a size is no symbol: a test comes before.
from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch

from ..hardware.kernels import costs
from ..process.location import readable, split
from ..process.state import state

MOST_USES = 64  # of a block of memory that are remembered


class Use(NamedTuple):
    """Something used memory: the operator ``op``, or the host (``stream`` is None), at ``line``. ``count``: the number of
    the stream's last launch then."""

    op: str
    line: str | None
    stream: int | None = None
    count: int = 0

    def __str__(self) -> str:
        where = "" if self.stream is None else f" on stream {self.stream}"
        place = readable(self.line) if self.line else "at a line that was not kept: put `with vgpu.races(…):` around more"
        return f"{self.op}{where} ({place})"


class Region(NamedTuple):
    """Some bytes of memory, as a tensor's elements lie: ``size`` bytes each from ``begin`` on, strides in elements."""

    begin: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    size: int

    def overlaps(self, other: Region) -> bool:
        """Whether a byte is in both. Where that is hard to tell, no: nobody is accused without proof."""
        try:
            return self == other or bool(np.shares_memory(np.asarray(_Array(self)), np.asarray(_Array(other)),
                                                          max_work=10_000))
        except np.exceptions.TooHardError:
            return False


class _Array:
    """A region for NumPy, which looks at addresses and not at what is there."""

    def __init__(self, region: Region):
        strides = tuple(stride * region.size for stride in region.strides)
        self.__array_interface__ = {"version": 3, "typestr": f"|V{region.size}", "shape": tuple(region.shape),
                                    "strides": strides, "data": (region.begin + 4096, False)}  # 0 is no address


class RaceError(RuntimeError):
    """Two uses of the same memory that nothing orders: ``first`` and ``second``, each a :class:`Use`."""

    def __init__(self, first: Use, second: Use, message: str):
        super().__init__(message)
        self.first, self.second = first, second


class RaceWarning(UserWarning):
    """The same, where races only warn."""


@contextmanager
def races(report: str | list, *, lines: bool = True):
    """What becomes of the races found inside: "warn" (RaceWarning, as outside), "raise" (RaceError), or a list that the
    RaceErrors are appended to. With ``lines`` each use's line is kept from here on, even with one stream. Raises ValueError
    for anything else."""
    if report not in ("warn", "raise") and not isinstance(report, list):
        raise ValueError(f'races(…) takes "warn", "raise" or a list, not {report!r}')
    before = state.races, state.keeps_lines, state.timeline.told
    state.races, state.keeps_lines, state.timeline.told = report, lines, set()
    try:
        yield report
    finally:
        state.races, state.keeps_lines, state.timeline.told = before


def found(first: Use, second: Use, message: str) -> None:
    """Report a race, once for each pair of lines."""
    lines = first.line, second.line
    if lines in state.timeline.told:
        return
    state.timeline.told.add(lines)
    error = RaceError(first, second, message)
    if state.races == "raise":
        raise error
    if isinstance(state.races, list):
        state.races.append(error)
        return
    file, line = split(second.line)
    warnings.warn_explicit(message, RaceWarning, file, line)


# -- tensors of the device --------------------------------------------------------------------------


def note(operator, args, kwargs, result, count: int) -> None:
    """``operator`` has run on the current stream, which had launched ``count`` before: compare what it read and wrote with
    what other streams did, and remember it."""
    if state.timeline.current.count == count:
        return  # a view, an empty tensor: nothing ran
    writes = _written(operator, args, kwargs)
    known = {id(tensor) for tensor in writes}
    reads = [] if operator.makes_new else [tensor for tensor in costs.tensors(args, kwargs) if id(tensor) not in known]
    known |= {id(tensor) for tensor in reads}
    writes += [tensor for tensor in costs.tensors(result) if id(tensor) not in known]
    uses(operator.full_name, reads, writes)


def stamp(operator, args, kwargs, count: int) -> None:
    """The same where nobody keeps uses: only which launch of the stream was the last to write, for the time when there is a
    second stream."""
    stream = state.timeline.current
    if stream.count != count:
        for tensor in _written(operator, args, kwargs):
            allocation = getattr(tensor, "allocation", None)
            if allocation is not None:
                allocation.made, allocation.made_on = stream.count, stream.number


def _written(operator, args, kwargs) -> list[torch.Tensor]:
    """The arguments that ``operator`` writes to."""
    return costs.tensors(operator.written_of(args, kwargs))


def uses(op: str, reads: list, writes: list) -> None:
    """``op`` has read and written these tensors on the current stream. Other devices' tensors are passed over."""
    stream = state.timeline.current
    use = Use(op, state.timeline.locate(), stream.number, stream.count)
    for tensors, writes_them in ((reads, False), (writes, True)):
        for tensor in tensors:
            allocation = getattr(tensor, "allocation", None)
            if allocation is not None and tensor.numel():
                _use(allocation, tensor.within, use, writes_them, stream)


def _use(allocation, inner: torch.Tensor, use: Use, writes: bool, stream) -> None:
    region = Region(inner.storage_offset() * inner.element_size(), inner.shape, inner.stride(), inner.element_size())
    known = allocation.uses
    if known is None:
        known = allocation.uses = {}
        if allocation.made is not None:
            number = allocation.made_on
            known[None, number, True] = Use("an operator", None, number, allocation.made)
    timeline = state.timeline
    for (other, number, wrote), earlier in list(known.items()):
        if (number != stream.number and (writes or wrote) and not timeline.is_ordered(number, earlier.count, stream)
                and (other is None or other.overlaps(region))):
            first, second = ("written" if kind else "read" for kind in (wrote, writes))
            found(earlier, use, f"a tensor is {first} by {earlier} and {second} by {use}, and nothing orders the two "
                  "streams. On a GPU either may come first. Before the second, make its stream wait for the first: "
                  "stream.wait_stream(other), or stream.wait_event(event).")
    if writes and _is_all(inner):
        known.clear()  # whatever comes after this comes after them, or was reported
    known[region, stream.number, writes] = use
    if len(known) > MOST_USES:
        del known[next(iter(known))]


def _is_all(inner: torch.Tensor) -> bool:
    return inner.is_contiguous() and inner.numel() * inner.element_size() == inner.untyped_storage().nbytes()


# -- memory that is freed ---------------------------------------------------------------------------


def reused(allocation) -> None:
    """``allocation`` is new, and takes memory that its stream has given back. Is another stream done with it?"""
    memory, stream = state.memory, state.timeline.current
    for entry in list(memory.freed):
        number, nbytes, known = entry
        if number != stream.number:
            continue
        pending = [use for use in known if not state.timeline.is_ordered(use.stream, use.count, stream)]
        if not pending:
            memory.freed.remove(entry)
        elif allocation.nbytes <= nbytes:
            memory.freed.remove(entry)
            use = Use("a new tensor", state.timeline.locate(), stream.number)
            found(pending[-1], use, f"{pending[-1]} uses memory that has been freed, and {use} may get it too early. "
                  f"Call tensor.record_stream(stream) with the stream that uses it, or make stream {number} wait for that "
                  "stream before it takes new memory.")
