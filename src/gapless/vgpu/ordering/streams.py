"""Streams and events of the virtual GPU, under ``torch.vgpu`` and as ``torch.Stream`` and ``torch.Event``."""

# mypy: disable-error-code="assignment, misc"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import torch

from ..hardware.clock.streams import Mark
from ..hardware.clock.streams import Stream as ClockStream
from ..process.state import DEVICE, NAME, state


class Event:
    """A point in a stream, as ``torch.cuda.Event``. Times are virtual."""

    device = DEVICE

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        self.enable_timing = enable_timing
        self._mark: Mark | None = None

    def __repr__(self) -> str:
        return f"<torch.{DEVICE.type}.Event {'not recorded' if self._mark is None else 'recorded'}>"

    def record(self, stream=None) -> None:
        """Mark the work queued in ``stream`` (default: the current one) so far."""
        self._mark = state.timeline.record_event(_theirs(stream))

    def wait(self, stream=None) -> None:
        """Later work in ``stream`` waits for this point; the host does not."""
        theirs = _theirs(stream)
        if self._mark is not None:
            state.timeline.stream_wait_event(self._mark, theirs)

    def synchronize(self) -> None:
        """The host waits for this point."""
        if self._mark is not None:
            state.timeline.synchronize_event(self._mark)

    def query(self) -> bool:
        """Whether the device has reached this point. Asking takes the host a virtual microsecond."""
        return self._mark is None or state.timeline.query(self._mark)

    @property
    def event_id(self) -> int:
        """A number that no other living event has."""
        return id(self)

    def ipc_handle(self):
        """Not here: NotImplementedError."""
        raise NotImplementedError(f"an event on {DEVICE} cannot go to another process")

    from_ipc_handle = ipc_handle

    def elapsed_time(self, end: Event) -> float:
        """Virtual ms from this event to ``end``. Raises RuntimeError if either was not recorded or is not reached yet."""
        if not (self.enable_timing and end.enable_timing):
            raise RuntimeError("both events must be made with enable_timing=True")
        if self._mark is None or end._mark is None:
            raise RuntimeError("both events must be recorded before their distance can be taken")
        if max(self._mark.ns, end._mark.ns) > state.timeline.host_ns:
            raise RuntimeError("device not ready: synchronize before the distance of two events is taken")
        for mark in (self._mark, end._mark):
            state.timeline.host_learns(mark.known)
        return (end._mark.ns - self._mark.ns) / 1e6


class Stream:
    """An in-order queue of device work, as ``torch.cuda.Stream``. ``with stream:`` sends work there.

    Streams share the card (:mod:`..hardware.clock.engine`). ``priority`` is kept, lower numbers first, and changes no
    time: a launch here never takes the card from an earlier one.
    """

    device = DEVICE
    device_index = DEVICE.index
    device_type = torch._C._autograd.DeviceType.PrivateUse1.value

    def __init__(self, device=None, priority: int = 0, _stream=None):
        self._stream = _stream if _stream is not None else state.timeline.new_stream()
        self.priority = min(int(priority), 0)  # CUDA takes a lower one than 0 for 0
        self._before: list = []

    def __repr__(self) -> str:
        return f"<torch.{DEVICE.type}.Stream device={DEVICE} stream={self.stream_id}>"

    @property
    def stream_id(self) -> int:
        """The stream's number in a trace."""
        return self._stream.number

    def synchronize(self) -> None:
        """The host waits for all work in this stream."""
        state.timeline.synchronize_stream(self._stream)

    def wait_event(self, event: Event) -> None:
        """Later work here waits for ``event``. Raises TypeError for anything else than an event of the device."""
        if not isinstance(event, Event):
            raise TypeError(f"an event on {DEVICE} is needed, not {event!r}: make one with torch.vgpu.Event()")
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Later work here waits for all that ``stream`` holds now. Raises TypeError for the stream of another device."""
        _theirs(stream)
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event here and return it."""
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work here is done. Asking takes the host a virtual microsecond."""
        return state.timeline.query(state.timeline.record_event(self._stream))

    def is_capturing(self) -> bool:
        """Whether work here is captured (:mod:`..compiling.graphs`)."""
        return state.timeline.is_captured(self._stream)

    @property
    def native_handle(self):
        raise NotImplementedError(f"a stream on {DEVICE} has no handle of CUDA's")

    def __enter__(self) -> Stream:
        self._before.append(state.timeline.current)
        state.timeline.current = self._stream
        return self

    def __exit__(self, *error) -> None:
        state.timeline.current = self._before.pop()

    def __eq__(self, other):
        return isinstance(other, Stream) and self._stream is other._stream

    def __hash__(self):
        return hash(self._stream)


def current_stream() -> Stream:
    """The stream that work goes to."""
    return Stream(_stream=state.timeline.current)


def set_stream(stream: Stream) -> None:
    """Send work to ``stream`` from now on. Raises TypeError for the stream of another device."""
    state.timeline.current = _theirs(stream)


def _theirs(stream: Stream | None) -> ClockStream:
    """The timeline's stream; the current one's for None. Raises TypeError for the stream of another device."""
    if stream is None:
        return state.timeline.current
    if not isinstance(stream, Stream):
        raise TypeError(f"a stream on {DEVICE} is needed, not {stream!r}: make one with torch.vgpu.Stream()")
    return stream._stream


def _public(theirs: type, ours: type) -> type:
    """A stand-in for PyTorch's class ``theirs`` that makes ``ours`` for the device, which is the accelerator here.

    PyTorch's own asks the C++ device guard, which a backend in Python cannot fill.
    """

    class Either(type):
        def __call__(cls, device=None, *args, **kwargs):
            if device is not None and torch.device(device).type != NAME:
                return theirs(device, *args, **kwargs)
            return ours(*args, **kwargs)

        def __instancecheck__(cls, value) -> bool:
            return isinstance(value, (theirs, ours))

        def __subclasscheck__(cls, other) -> bool:
            return issubclass(other, (theirs, ours))

    return Either(theirs.__name__, (), {"__doc__": theirs.__doc__, "__module__": "torch"})


def install() -> None:
    """Let ``torch.Stream`` and ``torch.Event`` be the device's unless another device is named."""
    torch.Stream = _public(torch.Stream, Stream)
    torch.Event = _public(torch.Event, Event)
