"""The clocks of the modelled GPU: a host clock, in-order streams, a bounded launch queue.

Knows nothing of PyTorch. Times are whole nanoseconds, so that two runs give the same clocks to the
last digit. Not modelled: kernels of several streams slowing one another, the latency
between a launch and an idle stream's start, CPU contention.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import dataclass, field

from .specs import Card, Host


@dataclass(slots=True)
class Record:
    """One interval (``dur_ns`` ≥ 0) or instant on the timeline, in the words of a Kineto trace.

    ``row``: "host", or the number of the stream.
    """

    category: str
    name: str
    start_ns: int
    dur_ns: int
    row: str | int
    args: dict


@dataclass(slots=True)
class Wait:
    """One synchronisation: the host waited for the device ``wait_ns`` (0 when it was already done)."""

    name: str
    op: str | None
    wait_ns: int
    location: str | None


class Stream:
    """An in-order queue of device work. ``ready_ns``: when the last work put in ends."""

    __slots__ = ("number", "ready_ns", "pending", "__weakref__")

    def __init__(self, number: int):
        self.number = number
        self.clear()

    def clear(self) -> None:
        """Forget all work."""
        self.ready_ns = 0
        self.pending: deque[int] = deque()


@dataclass
class Recording:
    """What a profile collects while it is attached to a timeline. ``lines``: also the user's line of each operator;
    ``shapes``: also what each operator was given (:meth:`Timeline.note_inputs`)."""

    records: list[Record] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    lines: bool = True
    shapes: bool = False


class Timeline:
    """Host clock and streams of one card.

    The stream that work goes to is ``current``. ``locate`` (set by the backend) names the line of the
    user's program that is running: it is called once for each wait and, while recording, for each operator.
    """

    DEFAULT_STREAM = 7  # the number CUDA traces show for PyTorch's default stream
    COPY_NS = 1_000  # a copy's own overhead on the device
    # "For transfers of 64 KB or less" from pageable memory the driver puts the bytes aside and returns (CUDA C++
    # programming guide, "asynchronous concurrent execution"); the transfer begins a moment later.
    PUT_ASIDE_BYTES = 64 * 1024
    PUT_ASIDE_NS = 2_000

    def __init__(self, card: Card, host: Host | None = None, locate=lambda: None):
        self.card = card
        self.host = host or card.host
        self.locate = locate
        self.recording: Recording | None = None
        self.wait_hooks: list = []
        self.streams: dict[int, Stream] = {self.DEFAULT_STREAM: Stream(self.DEFAULT_STREAM)}
        self.reset()

    def reset(self) -> None:
        """Both clocks to zero, all streams empty. A stream that somebody still holds stays usable; the others are
        forgotten, so that the next program's streams get the same numbers."""
        self.host_ns = 0
        self.current = self.streams[self.DEFAULT_STREAM]
        held = weakref.WeakValueDictionary(self.streams)
        self.streams.clear()
        self.streams.update(held)
        for stream in self.streams.values():
            stream.clear()
        self.correlation = 0
        self.kernel_count = 0
        self._ops = threading.local()

    # -- host ---------------------------------------------------------------------------------

    def host_work(self, ns: int) -> None:
        """The host computes for ``ns``."""
        self.host_ns += ns

    def begin_op(self, name: str, cost_ns: int | None = None) -> None:
        """An operator starts on the host, which costs ``cost_ns`` (``Host.op_ns`` if None); operators nest."""
        stack = self._op_stack()
        recording = self.recording
        location = self.locate() if recording is not None and recording.lines else None
        stack.append((name, self.host_ns, location))
        self.host_ns += self.host.op_ns if cost_ns is None else cost_ns

    def end_op(self) -> None:
        """The innermost operator returns."""
        name, start_ns, location, *inputs = self._op_stack().pop()
        if self.recording is not None:
            duration = self.host_ns - start_ns
            if location is not None:
                self._record("python_function", location, start_ns, duration, "host", {})
            self._record("cpu_op", name, start_ns, duration, "host", inputs[0] if inputs else {})

    def note_inputs(self, inputs: dict) -> None:
        """What the innermost operator was given: arguments of its event in a trace."""
        stack = self._op_stack()
        stack[-1] = (*stack[-1], inputs)

    def _op_stack(self) -> list:
        try:
            return self._ops.stack
        except AttributeError:
            self._ops.stack = []
            return self._ops.stack

    @property
    def in_operator(self) -> bool:
        """Whether an operator of this thread is running."""
        return bool(self._op_stack())

    def annotate(self, name: str, start_ns: int) -> None:
        """Record the block ``name`` from ``start_ns`` until now."""
        if self.recording is not None:
            self._record("user_annotation", name, start_ns, self.host_ns - start_ns, "host", {})

    # -- device -------------------------------------------------------------------------------

    def launch(self, name: str, duration_ns: int, *, category: str = "kernel", call: str = "cudaLaunchKernel",
               args: dict | None = None, delay_ns: int = 0) -> int:
        """Queue device work on the current stream; returns when it will end (ns). It starts no sooner than ``delay_ns``
        after the call. Blocks the host while the launch queue is full."""
        stream, start_ns = self.current, self.host_ns
        pending = stream.pending
        while pending and pending[0] <= self.host_ns:
            pending.popleft()
        if len(pending) >= self.host.queue_length:
            self.host_ns = pending.popleft()
        self.host_ns += self.host.launch_ns
        begin = max(self.host_ns + delay_ns, stream.ready_ns)
        stream.ready_ns = begin + duration_ns
        pending.append(stream.ready_ns)
        self.kernel_count += category == "kernel"
        if self.recording is not None:
            self.correlation += 1
            self._record("cuda_runtime", call, start_ns, self.host_ns - start_ns, "host",
                         {"correlation": self.correlation})
            self._record(category, name, begin, duration_ns, stream.number,
                         {"correlation": self.correlation, "stream": stream.number, "device": 0, **(args or {})})
        return stream.ready_ns

    def copy(self, direction: str, nbytes: int, *, pinned: bool, blocking: bool) -> None:
        """A copy between host and device, as CUDA does it.

        ``direction``: "HtoD" or "DtoH". A blocking copy waits for the stream. So does a pageable one
        that was asked not to block: the driver stages it through its own pinned buffer (CUDA driver API,
        "API synchronization behavior"), unless it is small and goes to the device.
        """
        share = self.host.pinned_share if pinned else self.host.pageable_share
        duration_ns = self.COPY_NS + round(nbytes / (self.card.pcie_bytes_per_s * share) * 1e9)
        memory = "Pinned" if pinned else "Pageable"
        name = (f"Memcpy HtoD ({memory} -> Device)" if direction == "HtoD" else f"Memcpy DtoH (Device -> {memory})")
        args = {"bytes": nbytes}
        put_aside = not pinned and direction == "HtoD" and nbytes <= self.PUT_ASIDE_BYTES
        if not (blocking or pinned or put_aside):
            self._staged_copy(name, duration_ns, args)
            return
        self.launch(name, duration_ns, category="gpu_memcpy", call="cudaMemcpyAsync", args=args,
                    delay_ns=self.PUT_ASIDE_NS if put_aside and not blocking else 0)
        if blocking:
            self.wait_for(self.current.ready_ns, "cudaStreamSynchronize", {"stream": self.current.number})

    def _staged_copy(self, name: str, duration_ns: int, args: dict) -> None:
        """One ``cudaMemcpyAsync`` that itself lasts until the copy is done."""
        start_ns, recording = self.host_ns, self.recording
        self.recording = None
        end_ns = self.launch(name, duration_ns, category="gpu_memcpy")
        self.recording = recording
        wait_ns = max(0, end_ns - self.host_ns)
        self.host_ns = max(self.host_ns, end_ns) + self.host.sync_ns
        if recording is not None:
            self.correlation += 1
            correlation = {"correlation": self.correlation}
            self._record("cuda_runtime", "cudaMemcpyAsync", start_ns, self.host_ns - start_ns, "host", correlation)
            self._record("gpu_memcpy", name, end_ns - duration_ns, duration_ns, self.current.number,
                         {**correlation, "stream": self.current.number, "device": 0, **args})
        self._note_wait("cudaMemcpyAsync", wait_ns)

    # -- waits --------------------------------------------------------------------------------

    def wait_for(self, until_ns: int, name: str, args: dict | None = None) -> None:
        """The host waits until ``until_ns``, in the runtime call ``name``."""
        start_ns = self.host_ns
        wait_ns = max(0, until_ns - start_ns)
        self.host_ns = start_ns + wait_ns + self.host.sync_ns
        wait = self._note_wait(name, wait_ns)
        if self.recording is not None:
            duration_ns = self.host_ns - start_ns
            if self.recording.lines and wait.op is None and wait.location is not None:
                # within an operator, the operator's line is recorded
                self._record("python_function", wait.location, start_ns, duration_ns, "host", {})
            self.correlation += 1
            self._record("cuda_runtime", name, start_ns, duration_ns, "host",
                         {"correlation": self.correlation, **(args or {})})

    def _note_wait(self, name: str, wait_ns: int) -> Wait | None:
        """Tell whoever listens."""
        if self.recording is None and not self.wait_hooks:
            return None
        stack = self._op_stack()
        wait = Wait(name, stack[-1][0] if stack else None, wait_ns, self.locate())
        if self.recording is not None:
            self.recording.waits.append(wait)
        for hook in self.wait_hooks:
            hook(wait)
        return wait

    def synchronize_stream(self, stream: Stream | None = None) -> None:
        """``cudaStreamSynchronize``."""
        stream = stream or self.current
        self.wait_for(stream.ready_ns, "cudaStreamSynchronize", {"stream": stream.number})

    def synchronize_device(self) -> None:
        """``cudaDeviceSynchronize``."""
        self.wait_for(self.device_ready_ns, "cudaDeviceSynchronize")

    def synchronize_event(self, event_ns: int) -> None:
        """``cudaEventSynchronize`` on an event recorded at ``event_ns``."""
        self.wait_for(event_ns, "cudaEventSynchronize")

    @property
    def device_ready_ns(self) -> int:
        """When all work queued so far will have ended."""
        return max(stream.ready_ns for stream in self.streams.values())

    # -- streams and events -------------------------------------------------------------------

    def new_stream(self) -> Stream:
        """A further stream; its work runs beside the others'."""
        stream = Stream(max(self.streams) + 4)
        self.streams[stream.number] = stream
        return stream

    def record_event(self, stream: Stream | None = None) -> int:
        """When the work queued in ``stream`` so far ends (ns): what an event recorded now will show."""
        return max((stream or self.current).ready_ns, self.host_ns)

    def stream_wait_event(self, event_ns: int, stream: Stream | None = None) -> None:
        """Work queued in ``stream`` from now on starts no sooner than ``event_ns``."""
        stream = stream or self.current
        stream.ready_ns = max(stream.ready_ns, event_ns)

    def _record(self, category, name, start_ns, dur_ns, row, args) -> None:
        self.recording.records.append(Record(category, name, start_ns, dur_ns, row, args))
