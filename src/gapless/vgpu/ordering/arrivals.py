"""Copies between the device and pinned memory that do not block: bytes on their way, and who touches them meanwhile.

The bytes of a copy to the host are in the host's tensor when the host's clock has passed the copy's end. From the moment
that the copy is queued until then, the tensor shows what stands for uninitialised memory (:func:`.pinned.spoil`): on a GPU
it may hold the old bytes or the new ones, so a program that reads them relies on luck. What arrives is what the source held
when the copy ran, in the order of its stream. A value that a program reads too early is wrong, and nobody can say so:
reading a CPU tensor calls nothing here. Where it can be seen it is reported: a number on the host that an operator takes, a
copy of bytes that another stream's copy is about to write, and, by a checksum, memory that the host has changed before it
had waited for the copy from it or to it.

A tensor that is dropped before its bytes come keeps its memory until then. When the clocks start again, all copies are over;
in a forked process nothing arrives.

Tensors without values (:func:`gapless.vgpu.shape_only`) have no bytes to wait for.
"""

from __future__ import annotations

import ctypes
import zlib
from dataclasses import dataclass

import torch

from ..process.state import state
from .pinned import Block, block_of, spoil
from .race_detector import Region, Use, found

_WAIT = ("Record an event after the copy, and call event.synchronize() before the host uses the memory. Or use other memory "
         "meanwhile.")


@dataclass(eq=False, slots=True)
class Copy:
    """One copy from (or ``to_host``) the ``nbytes`` of pinned memory at ``address``. ``values``: what arrives; ``held``:
    keeps the memory; both until it is ``done``. ``checksum``: of the memory, which the host must leave alone."""

    block: Block
    address: int
    nbytes: int
    to_host: bool
    use: Use
    checksum: int
    held: torch.UntypedStorage | None
    values: torch.Tensor | None = None
    done: bool = False

    def overlaps(self, address: int, nbytes: int) -> bool:
        return self.address < address + nbytes and address < self.address + self.nbytes

    def lies_within(self, address: int, nbytes: int) -> bool:
        return address <= self.address and self.address + self.nbytes <= address + nbytes

    def has_changed(self) -> bool:
        return _checksum(self.address, self.nbytes) != self.checksum

    def spoil(self) -> None:
        """Until the bytes arrive there is no value."""
        deliver(self.address, spoil(torch.empty_like(self.values)))

    def see_anew(self) -> None:
        """What is there is no change of the host's."""
        for copy in self.block.copies:
            if copy.overlaps(self.address, self.nbytes):
                copy.checksum = _checksum(copy.address, copy.nbytes)

    def finish(self) -> None:
        """The host's clock has passed the end."""
        changed = self.has_changed()
        if self.to_host:
            deliver(self.address, self.values)
            for other in self.block.copies:
                if other is not self and other.to_host and other.overlaps(self.address, self.nbytes):
                    other.spoil()
            self.see_anew()
        self.done, self.held, self.values = True, None, None
        if self.to_host:
            self.block.copies.remove(self)
        if changed:
            self.tell_change()

    def tell_change(self) -> None:
        host = Use("the host", state.timeline.locate())
        doing = "was to write" if self.to_host else "had not yet read"
        if self in self.block.copies:
            self.block.copies.remove(self)
        found(self.use, host, f"the host has overwritten pinned memory that {self.use} {doing}. Found at {host}. {_WAIT}")


def deliver(address: int, values: torch.Tensor) -> None:
    """Put the bytes of ``values`` into the host's memory at ``address``."""
    ctypes.memmove(address, values.data_ptr(), values.numel() * values.element_size())


def _checksum(address: int, nbytes: int) -> int:
    return zlib.crc32((ctypes.c_char * nbytes).from_address(address))


def _memory(host: torch.Tensor) -> tuple[int, int]:
    """Where the elements of ``host`` lie, side by side."""
    return host.data_ptr(), host.numel() * host.element_size()


def _here() -> Use:
    stack, stream = state.timeline.operator, state.timeline.current
    return Use(stack or "a copy", state.timeline.locate(), stream.number, stream.count)


def _start(host: torch.Tensor, end_ns: int, values: torch.Tensor | None) -> None:
    block, (address, nbytes) = block_of(host), _memory(host)
    copy = Copy(block, address, nbytes, values is not None, _here(), 0, host.untyped_storage(), values)
    block.copies.append(copy)
    if copy.to_host:
        copy.spoil()
    copy.see_anew()
    state.timeline.at(end_ns, copy.finish)


def copy_out(values: torch.Tensor, host: torch.Tensor, end_ns: int) -> None:
    """``values`` (nobody else's, laid out as ``host`` is) come into the pinned ``host`` at ``end_ns``. Call it behind
    ``Timeline.copy``."""
    if not values.numel():
        return
    _compare(host, True)
    if end_ns <= state.timeline.host_ns:
        deliver(host.data_ptr(), values)
    else:
        _start(host, end_ns, values)


def copy_in(host: torch.Tensor, end_ns: int) -> None:
    """The device reads the pinned ``host``, whose elements lie side by side, until ``end_ns``. Call it behind
    ``Timeline.copy``."""
    if not host.numel() or state.shape_only is not None:
        return
    _compare(host, False)
    if end_ns > state.timeline.host_ns:
        _start(host, end_ns, None)


def as_copied(host: torch.Tensor) -> torch.Tensor:
    """``host``, whose elements lie side by side, or a copy of it with the bytes that will have arrived by the time that the
    current stream reads it."""
    block = block_of(host)
    if block is None or not block.copies or not host.numel():
        return host
    (address, nbytes), stream = _memory(host), state.timeline.current
    arriving = [copy for copy in block.copies if copy.to_host and copy.overlaps(address, nbytes)
                and state.timeline.is_ordered(copy.use.stream, copy.use.count, stream)]
    if not arriving:
        return host
    seen = torch.empty_like(host)
    ctypes.memmove(seen.data_ptr(), address, nbytes)
    for copy in arriving:
        begin, end = max(address, copy.address), min(address + nbytes, copy.address + copy.nbytes)
        ctypes.memmove(seen.data_ptr() + begin - address, copy.values.data_ptr() + begin - copy.address, end - begin)
    return seen


def host_reads(host: torch.Tensor) -> None:
    """The host itself reads ``host``: has it waited for what is to arrive there?"""
    block = block_of(host)
    if block is None:
        return
    read = Region(host.data_ptr(), host.shape, host.stride(), host.element_size())
    for copy in list(block.copies):
        if copy.to_host and read.overlaps(Region(copy.address, (copy.nbytes,), (1,), 1)):
            here = Use(state.timeline.operator or "the host", state.timeline.locate())
            found(copy.use, here, f"{here} reads pinned memory on the host before {copy.use} has filled it. {_WAIT}")


def _compare(host: torch.Tensor, to_host: bool) -> None:
    """A copy from or to ``host`` begins. Are those before it done, or ordered before it, and has the host left their memory
    alone until then?"""
    block, timeline = block_of(host), state.timeline
    if block is None:
        return
    for copy in list(block.copies):
        if copy.done and timeline.host_has_waited_for(copy.use.stream, copy.use.count):
            block.copies.remove(copy)
        elif copy.overlaps(*_memory(host)):
            if not copy.to_host and copy.has_changed():
                copy.checksum = _checksum(copy.address, copy.nbytes)  # told once
                copy.tell_change()
            elif ((to_host or copy.to_host)
                  and not timeline.is_ordered(copy.use.stream, copy.use.count, timeline.current)):
                here = _here()
                found(copy.use, here, f"{copy.use} and {here} use the same pinned memory, and nothing orders the two "
                      "streams. Make the second stream wait for the first, or use other memory.")
            elif copy.done and copy.lies_within(*_memory(host)):
                block.copies.remove(copy)  # who waits for this one has waited for that
