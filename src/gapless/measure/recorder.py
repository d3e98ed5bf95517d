"""What happens on the virtual timeline between two moments, as a trace: the one recorder behind ``gapless.profile`` and
``gapless.profiler``."""

from __future__ import annotations

import itertools
from collections import defaultdict

import torch

from .. import vgpu
from ..evidence.traces.trace import Trace
from ..garbage import no_collection
from ..vgpu.face import kineto
from ..vgpu.hardware.times import uncertainty
from ..vgpu.host import host_clock

HOST_EVENTS = frozenset({"cpu_op", "user_annotation", "python_function"})
DEVICE_EVENTS = frozenset({"cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset"})


class Recorder:
    """Records the card in use from :meth:`start` to :meth:`stop`.

    ``shapes``: each operator's inputs; ``memory``: each change of the card's memory; ``lines``: the user's line of each
    operator. ``host`` and ``device``: whether operators and blocks, and whether calls and the GPU's work, are kept.
    """

    def __init__(self, *, shapes: bool = False, memory: bool = False, lines: bool = False, host: bool = True,
                 device: bool = True):
        self.shapes, self.memory, self.lines = shapes, memory, lines
        kept = (HOST_EVENTS if host else frozenset()) | (DEVICE_EVENTS if device else frozenset())
        self._dropped = (HOST_EVENTS | DEVICE_EVENTS) - kept
        self._blocks: _Blocks | None = None
        self._recording: vgpu.Recording | None = None
        self._addresses: defaultdict[int, int] = defaultdict(int)

    def prepare(self) -> None:
        """Watch the device, so that work queued now and done after :meth:`start` is part of the trace, as on CUDA.
        Raises RuntimeError where another recorder is at work."""
        self._attach(vgpu.Recording(lines=False))

    def start(self) -> None:
        """Record from now on; :meth:`prepare` may have been called or not. Raises RuntimeError as it does."""
        before = self._recording
        if before is None:
            self._attach(vgpu.Recording())
        else:
            before.keep(lambda record: record.row != "host" and record.start_ns >= self._timeline.host_ns)
            before.waits.clear()
        self._recording.lines, self._recording.shapes = self.lines, self.shapes
        if self.memory:
            # Numbered as they come, so that the same program leaves the same trace.
            self._addresses = defaultdict(itertools.count().__next__)
            self._card_memory.listeners += (self._changed,)
        try:
            host_clock.clock().begin()
        except RuntimeError:
            self._detach()
            raise
        self._blocks = _Blocks(self._timeline)
        self._blocks.attach()

    def stop(self) -> tuple[vgpu.Recording, vgpu.Card]:
        """Wait for the device, as PyTorch's profiler does, and record no more. What it returns is for :func:`as_trace`."""
        timeline, recording = self._timeline, self._recording
        locate = timeline.locate
        try:
            if self._blocks is not None:
                self._blocks.detach()
                self._blocks = None
                host_clock.clock().end()
            timeline.host_work(2_000)  # the closing wait belongs to no step, and to no line of the user's
            timeline.locate = lambda: None
            timeline.synchronize_device()
        finally:
            timeline.locate = locate
            self._detach()
        if self._dropped:
            recording.keep(lambda record: record.category not in self._dropped)
        return recording, timeline.card

    def _detach(self) -> None:
        memory = self._card_memory
        memory.listeners = tuple(each for each in memory.listeners if each != self._changed)
        self._timeline.recording = self._recording = None

    def number_of(self, address: int) -> int:
        """What the trace calls that address of the card."""
        return self._addresses[address]

    def _attach(self, recording: vgpu.Recording) -> None:
        timeline = vgpu.timeline()
        if timeline.recording is not None:
            raise RuntimeError("a profile is already being recorded: profiles do not nest")
        self._timeline, self._card_memory = timeline, vgpu.memory()
        timeline.recording = self._recording = recording

    def _changed(self, nbytes: int, address: int) -> None:
        # What is freed between two operators is written down while Python's calls are counted: this makes few.
        timeline, memory = self._timeline, self._card_memory
        # An operator's results are made when its time is over: a moment earlier they are inside it, and its own. What is
        # freed between two operators comes a moment after the first; kineto lets the second begin another moment later.
        now_ns = timeline.host_ns + (-1 if timeline.in_operator else 1)
        self._recording.fields += (
            "memory", "[memory]", now_ns, 0, "host",
            {"Device Type": 1, "Device Id": 0,
             "Addr": self._addresses[address], "Bytes": nbytes,
             "Total Allocated": memory.allocated_bytes, "Total Reserved": memory.reserved["all"].current})


def as_trace(recording: vgpu.Recording, card: vgpu.Card, metadata: dict[str, object]) -> Trace:
    """The trace of a recording of ``card``, with further ``metadata`` of the file."""
    with no_collection():
        events = kineto.trace_events(recording, card)
    return Trace(events, {
        "schemaVersion": 1,
        "deviceProperties": kineto.device_properties(card),
        **metadata,
        "gapless": {"simulated": True, "card": card.key,
                    "uncertainty": round(uncertainty.of_step(card, recording.kernels()), 3)},
    })


def distributed_info() -> dict:
    """What PyTorch's profiler says of the process group; rank 0 where there is none, since tools file traces by rank."""
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        return {"backend": group.get_backend(), "rank": group.get_rank(), "world_size": group.get_world_size()}
    return {"rank": 0}


class _Blocks:
    """While attached, ``torch.profiler.record_function`` blocks are put on the virtual timeline. One that began before
    is left out."""

    def __init__(self, timeline: vgpu.Timeline):
        self.timeline = timeline

    def attach(self) -> None:
        cls = torch.autograd.profiler.record_function
        self.original = enter, leave = cls.__enter__, cls.__exit__
        timeline, this = self.timeline, self

        def __enter__(block):
            timeline.catch_up()
            block._vgpu_start = this, timeline.host_ns
            return enter(block)

        def __exit__(block, *error):
            owner, start_ns = getattr(block, "_vgpu_start", (None, 0))
            if owner is this:
                timeline.annotate(block.name, start_ns)
            return leave(block, *error)

        cls.__enter__, cls.__exit__ = __enter__, __exit__

    def detach(self) -> None:
        cls = torch.autograd.profiler.record_function
        cls.__enter__, cls.__exit__ = self.original
