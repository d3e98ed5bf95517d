"""The clocks of the modelled GPU: a host clock, in-order streams that share the card, a bounded launch queue.

Knows nothing of PyTorch. Times are whole nanoseconds, so that two runs give the same clocks to the
last digit. How streams share the card: :mod:`.engine`. Not modelled: the latency
between a launch and an idle stream's start, CPU contention.

Launches are numbered, and of each stream it is known which launches of others come before its next, whatever the clocks
say: those behind an event that it waits for, and those that the host has waited for (Lamport's happens-before,
by vector clocks). Work of two streams that nothing orders is a race if it touches the same memory.
"""

from __future__ import annotations

import heapq
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..cards.specs import Card, Host
from . import graphs
from .debug_aids import DebugAids
from .engine import WHOLE, Engine
from .streams import Mark, Stream


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


@dataclass(frozen=True, slots=True)
class CapturedMark(Mark):
    """A point in a stream under ``capture``: behind the nodes ``after``."""

    capture: graphs.Capture
    after: tuple[int, ...]


@dataclass
class Recording:
    """What a profile collects while it is attached to a timeline. ``lines``: also the user's line of each operator;
    ``shapes``: also what each operator was given (:meth:`Timeline.note_inputs`). ``works``: what kernels are and work on
    (kind, work, dtype), numbered; an event has the number.

    The fields of all records are one list, and dictionaries in it hold numbers and texts: Python's garbage collector would
    look through any other objects, and, since they are many, then through all of PyTorch's."""

    fields: list = field(default_factory=list)
    works: dict[tuple, int] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    lines: bool = True
    shapes: bool = False

    def rows(self) -> Iterator[tuple]:
        """The fields of each record: category, name, start_ns, dur_ns, row, args."""
        fields = iter(self.fields)
        return zip(fields, fields, fields, fields, fields, fields)

    @property
    def records(self) -> list[Record]:
        """What was recorded so far."""
        return [Record(*row) for row in self.rows()]

    def kernels(self) -> Iterator[tuple[str, str, int]]:
        """(kind, dtype, ns) of all kernels alike, of those of which it is known what they work on."""
        took_ns = [0] * len(self.works)
        for _, _, _, duration_ns, _, args in self.rows():
            if "work" in args:
                took_ns[args["work"]] += duration_ns
        for (kind, _, dtype), ns in zip(self.works, took_ns):
            yield kind, dtype, ns

    def keep(self, wanted: Callable[[Record], bool]) -> None:
        """Forget the records that are not ``wanted``."""
        self.fields = [each for row in self.rows() if wanted(Record(*row)) for each in row]

    def number_of(self, work: tuple) -> int:
        """The number of ``work`` in ``works``."""
        return self.works.setdefault(work, len(self.works))


class _OfThread(threading.local):
    """The current stream of each thread."""

    def __init__(self, default: Stream):
        self.stream = default


class Timeline:
    """Host clock and streams of one card.

    ``concurrent``: whether there is more than one stream. ``locate`` (set by the
    backend) names the line of the user's program that is running: it is called once for each wait and, while recording,
    for each operator. ``counted`` (set while something is measured) tells what the host has done by itself since it was
    asked last, in ns.
    """

    DEFAULT_STREAM = 7  # the number CUDA traces show for PyTorch's default stream
    COPY_NS = 1_000  # a copy's own overhead on the device
    # "For transfers of 64 KB or less" from pageable memory the driver puts the bytes aside and returns (CUDA C++
    # programming guide, "asynchronous concurrent execution"); the transfer begins a moment later.
    PUT_ASIDE_BYTES = 64 * 1024
    PUT_ASIDE_NS = 2_000
    QUERY_NS = 1_000  # the host asks whether an event is reached; an assumption
    MOST_MARKS = 1000
    POLLED_WITHIN = 8  # kernels: a program that asks for the same event again after fewer only waits

    def __init__(self, card: Card, host: Host | None = None, locate=lambda: None, launches: int = 0,
                 aids: DebugAids | None = None):
        self.card = card
        self.aids = aids or DebugAids()
        self.host = host or card.host
        self.locate = locate
        self.launches = launches  # so far, and on other cards before: never again from zero, so that old numbers stay old
        self.recording: Recording | None = None
        self.counted: Callable[[], int] | None = None
        self.held: Callable[[], None] | None = None  # launches what somebody holds back; done before anything else is put in
        self.wait_hooks: list = []
        self.wait_count = 0  # so far; never again from zero
        self.on_reset: Callable[[], None] = lambda: None
        self.due: list[tuple[int, int, Callable[[], None]]] = []
        self._due_serial = 0
        self.capture: graphs.Capture | None = None  # while work is captured in place of being queued
        self.streams: dict[int, Stream] = {self.DEFAULT_STREAM: Stream(self.DEFAULT_STREAM)}
        self.reset()

    @property
    def current(self) -> Stream:
        """The stream that work of this thread goes to. Each thread begins with the default stream, as on CUDA (PyTorch's
        notes, "CUDA semantics", "CUDA streams")."""
        return self._of_thread.stream

    @current.setter
    def current(self, stream: Stream) -> None:
        self._of_thread.stream = stream

    def reset(self) -> None:
        """Both clocks to zero, all streams empty. What is due (:meth:`at`) happens first. A stream that somebody still holds
        stays usable; the others are forgotten, so that the next program's streams get the same numbers."""
        self.release()
        while self.due:
            heapq.heappop(self.due)[2]()
        if self.counted is not None:
            self.counted()
        self.host_ns = 0
        self.capture = None
        self.capture_stream: Stream | None = None  # that of graphs which are given none, from the first one on
        self._of_thread = _OfThread(self.streams[self.DEFAULT_STREAM])
        held = weakref.WeakValueDictionary(self.streams)
        self.streams.clear()
        self.streams.update(held.items())  # not `held` itself, whose keys may go meanwhile
        for stream in self.streams.values():
            stream.clear()
        self.concurrent = len(self.streams) > 1
        self._engines = {name: Engine() for name in ("kernels", "HtoD", "DtoH")}
        self.host_knows: dict[int, int] = {}
        self._first_launch = self.launches  # all up to here is done and known to be
        self.told: set[tuple] = set()  # pairs of lines whose race was reported (gapless.vgpu.ordering.race_detector)
        self.correlation = 0
        self.captured_count = 0  # kernels, in graphs
        self.kernel_count = self.product_count = 0  # the matrix products among them, except for those of a graph's replay
        self.polls = 0  # events that a program has asked for again and again, with nothing done in between
        self._asked: dict[int, tuple[Mark, int, bool]] = {}  # not reached then: (event, kernels by then, polled)
        self._ops = threading.local()
        self.on_reset()

    # -- host ---------------------------------------------------------------------------------

    def host_work(self, ns: int) -> None:
        """The host computes for ``ns``. The one place where its clock moves: what is due by then happens."""
        self.host_ns += ns
        if self.due:
            self._come_due()

    def catch_up(self) -> None:
        """What the host has done by itself comes onto its clock."""
        if self.counted is not None:
            self.host_work(self.counted())

    def at(self, ns: int, happens: Callable[[], None]) -> None:
        """Call ``happens`` when the host's clock has come to ``ns``; at once if it has. What is due first comes first, of
        things due at the same time what was asked for first. An error in it comes out of whatever moved the clock."""
        if ns <= self.host_ns:
            happens()
            return
        self._due_serial += 1
        heapq.heappush(self.due, (ns, self._due_serial, happens))

    def _come_due(self) -> None:
        due = self.due
        while due and due[0][0] <= self.host_ns:
            heapq.heappop(due)[2]()

    def forget_due(self) -> None:
        """What is due will not happen: in a forked process, whose host memory no device writes to."""
        self.due.clear()

    def begin_op(self, name: str, cost_ns: int | None = None) -> None:
        """An operator starts on the host, which costs ``cost_ns`` (``Host.op_ns`` if None); operators nest."""
        stack = self._op_stack()
        if self.counted is not None:
            self.host_work(self.counted())
        recording = self.recording
        location = self.locate() if recording is not None and recording.lines else None
        start_ns = self.host_ns
        self.host_work((self.host.op_ns if cost_ns is None else cost_ns) + self.aids.op_ns)
        stack.append((name, start_ns, location))

    def end_op(self) -> None:
        """The innermost operator returns."""
        name, start_ns, location, *inputs = self._op_stack().pop()
        if self.recording is not None:
            duration = self.host_ns - start_ns
            if location is not None:
                self._record("python_function", location, start_ns, duration, "host", {})
            self._record("cpu_op", name, start_ns, duration, "host", inputs[0] if inputs else {})
            if self.aids.ranges:
                self._record("user_annotation", name, start_ns, duration, "host", {})

    def note_inputs(self, inputs: dict) -> None:
        """What the innermost operator was given: arguments of its event in a trace."""
        stack = self._op_stack()
        stack[-1] = (*stack[-1], inputs)

    @property
    def operator(self) -> str | None:
        """The innermost operator of this thread that is running."""
        stack = self._op_stack()
        return stack[-1][0] if stack else None

    def _op_stack(self) -> list:
        try:
            return self._ops.stack
        except AttributeError:
            self._ops.stack = []
            return self._ops.stack

    @property
    def nested(self) -> bool:
        """Whether the innermost operator of this thread is part of another."""
        return len(self._op_stack()) > 1

    @property
    def in_operator(self) -> bool:
        """Whether an operator of this thread is running."""
        try:
            return bool(self._ops.stack)
        except AttributeError:
            return False

    def python_work(self, name: str, ns: int) -> None:
        """The Python function ``name`` takes the host ``ns``."""
        self.catch_up()
        if self.recording is not None:
            self._record("python_function", name, self.host_ns, ns, "host", {})
        self.host_work(ns)

    def annotate(self, name: str, start_ns: int, args: dict | None = None) -> None:
        """Record the block ``name`` from ``start_ns`` until now."""
        self.catch_up()
        if self.recording is not None:
            self._record("user_annotation", name, start_ns, self.host_ns - start_ns, "host", args or {})

    # -- device -------------------------------------------------------------------------------

    def launch(self, name: str, duration_ns: int, *, category: str = "kernel", call: str = "cudaLaunchKernel",
               args: dict | None = None, work: tuple | None = None, delay_ns: int = 0, engine: str = "kernels",
               share: int = WHOLE) -> int:
        """Queue device work on the current stream; returns when it will end (ns). It starts no sooner than ``delay_ns``
        after the call. Blocks the host while the launch queue is full.

        ``work``: what it works on, for a trace (:class:`Recording`). Alone it takes ``duration_ns`` and ``share`` (of
        :data:`WHOLE`) of its ``engine``: "kernels", "HtoD" or "DtoH".
        While a graph is captured nothing is queued: it is now."""
        if self.held is not None:
            self.held()
        if self.capture is not None and self.capture.takes(self.current):
            return self._captured(name, duration_ns, category, call, args or {}, work, engine, share)
        stream, start_ns = self.current, self.host_ns
        self._place_in_queue(stream)
        self.host_work(self.host.launch_ns)
        begin = max(self.host_ns + delay_ns, stream.ready_ns)
        if self.concurrent:
            self._engines[engine].forget(self.host_ns)
            begin, stream.ready_ns = self._engines[engine].run(begin, duration_ns, share)
            duration_ns = stream.ready_ns - begin
        else:
            stream.ready_ns = begin + duration_ns
        stream.pending.append((stream.ready_ns, begin, engine, share))
        self.launches = stream.count = self.launches + 1
        self.kernel_count += category == "kernel"
        if self.aids.blocking and category != "gpu_memcpy":
            self._block(call)
        if self.recording is not None:
            self.correlation += 1
            self._record("cuda_runtime", call, start_ns, self.host_ns - start_ns, "host",
                         {"correlation": self.correlation})
            self._record_work(category, name, begin, duration_ns, stream.number, args, work)
        return stream.ready_ns

    def launch_together(self, stream: Stream | None = None, args: dict | None = None
                        ) -> Callable[[Callable[[int], tuple[int, int, str]]], Mark]:
        """Queue work whose end other processes decide on ``stream`` (default: the current one). Returns what gives that end,
        and may be called later, when the host learns of it.

        It takes ``meet``, which gets the time when the work could begin (ns) and gives when it ends (ns), its share of the
        card (of :data:`WHOLE`), which it takes from its beginning on, since it spins until the others have come, and its
        name."""
        self.release()
        stream, start_ns = stream or self.current, self.host_ns
        self._place_in_queue(stream)
        self.host_work(self.host.launch_ns)
        begin = max(self.host_ns, stream.ready_ns)
        self.launches = stream.count = self.launches + 1
        self.kernel_count += 1
        self._call("cudaLaunchKernelExC", start_ns)
        correlation = self.correlation

        def ends(meet: Callable[[int], tuple[int, int, str]]) -> Mark:
            end, share, name = meet(begin)
            if self.concurrent:
                self._engines["kernels"].forget(self.host_ns)
                self._engines["kernels"].hold(begin, end, share)
            stream.ready_ns = max(stream.ready_ns, end)
            stream.pending.append((end, begin, "kernels", share))
            if self.recording is not None:
                about = {"correlation": correlation, **(args or {})}
                self._record_work("kernel", name, begin, end - begin, stream.number, about, None)
            return Mark(end, self.known(stream))

        return ends

    def _block(self, call: str) -> None:
        """The call that has launched work on the current stream returns when the work is done."""
        wait_ns = max(0, self.current.ready_ns - self.host_ns)
        self.host_work(wait_ns + self.host.sync_ns)
        self._note_wait(call, wait_ns)
        self.host_learns(self.known(self.current))

    def _place_in_queue(self, stream: Stream) -> None:
        """Wait until the launch queue has a place."""
        pending = stream.pending
        while pending and pending[0][0] <= self.host_ns:
            pending.popleft()
        if len(pending) >= self.host.queue_length:
            self.host_work(pending.popleft()[0] - self.host_ns)

    def _record_work(self, category: str, name: str, begin_ns: int, duration_ns: int, row: int, args: dict | None,
                     work: tuple | None) -> None:
        """Work of the device, launched by the call that was recorded last."""
        about = {"correlation": self.correlation, "stream": row, "device": 0, **(args or {})}
        if work is not None:
            about["work"] = self.recording.number_of(work)
        self._record(category, name, begin_ns, duration_ns, row, about)

    def _captured(self, name: str, duration_ns: int, category: str, call: str, args: dict, work: tuple | None, engine: str,
                  share: int) -> int:
        """The call that would launch it, which the graph under capture takes."""
        start_ns = self.host_ns
        self.capture.add(self.current, category, name, duration_ns, share, engine, args, work)
        self.host_work(self.host.launch_ns)
        self._call(call, start_ns)
        return self.host_ns

    def _call(self, name: str, start_ns: int, args: dict | None = None) -> None:
        """A call of the runtime, from ``start_ns`` until now."""
        if self.recording is not None:
            self.correlation += 1
            self._record("cuda_runtime", name, start_ns, self.host_ns - start_ns, "host",
                         {"correlation": self.correlation, **(args or {})})

    def begin_capture(self, mode: str, fail: graphs.Fail) -> None:
        """``cudaStreamBeginCapture`` on the current stream."""
        self.catch_up()
        self.capture, start_ns = graphs.Capture(self.current, mode, fail), self.host_ns
        self.host_work(graphs.CAPTURE_NS)
        self._call("cudaStreamBeginCapture", start_ns)

    def end_capture(self) -> graphs.Graph:
        """``cudaStreamEndCapture``, and ``cudaGraphInstantiate`` of what was captured."""
        self.catch_up()
        capture, self.capture, start_ns = self.capture, None, self.host_ns
        self.host_work(graphs.CAPTURE_NS)
        self._call("cudaStreamEndCapture", start_ns)
        graph = capture.end()
        self.captured_count += graph.kernel_count
        start_ns = self.host_ns
        self.host_work(len(graph.nodes) * graphs.INSTANTIATE_NODE_NS)
        self._call("cudaGraphInstantiateWithFlags", start_ns)
        return graph

    def is_captured(self, stream: Stream) -> bool:
        """Whether work of ``stream`` is captured."""
        return self.capture is not None and self.capture.takes(stream)

    def launch_graph(self, graph: graphs.Graph) -> int:
        """``cudaGraphLaunch``: queue all of ``graph`` on the current stream; returns when it will end (ns)."""
        self.catch_up()
        stream, start_ns = self.current, self.host_ns
        if self.capture is not None:
            self.capture.fail("cudaErrorStreamCaptureUnsupported")
        self._place_in_queue(stream)
        self.host_work(graph.launch_ns())
        graph.launches += 1
        if self.recording is not None and self.recording.lines and (location := self.locate()) is not None:
            self._record("python_function", location, start_ns, self.host_ns - start_ns, "host", {})
        self._call("cudaGraphLaunch", start_ns)
        first_ns = last_ns = max(self.host_ns, stream.ready_ns)
        ends: list[int] = []
        for node in graph.nodes:
            begin, duration_ns = max((ends[place] for place in node.after), default=first_ns), node.duration_ns
            if self.concurrent:
                self._engines[node.engine].forget(self.host_ns)
                begin, end = self._engines[node.engine].run(begin, duration_ns, node.share)
            else:
                end = begin + duration_ns
            ends.append(end)
            last_ns = max(last_ns, end)
            if self.recording is not None:
                row = stream.number if node.stream == graph.nodes[0].stream else node.stream
                args = {"graph id": graph.number, "graph node id": len(ends), **node.args}
                self._record_work(node.category, node.name, begin, end - begin, row, args, node.work)
        stream.ready_ns = last_ns
        stream.pending.append((last_ns, first_ns, "kernels", WHOLE))
        self.launches = stream.count = self.launches + 1
        self.kernel_count += graph.kernel_count
        return last_ns

    def copy(self, direction: str, nbytes: int, *, pinned: bool, blocking: bool) -> int:
        """A copy between host and device, as CUDA does it; returns when it will end (ns).

        ``direction``: "HtoD" or "DtoH". A blocking copy waits for the stream. So does a pageable one
        that was asked not to block: the driver stages it through its own pinned buffer (CUDA driver API,
        "API synchronization behavior"), unless it is small and goes to the device. Nothing is copied without a call
        (ATen, cuda/Copy.cu, ``copy_kernel_cuda``; Copy.cpp, ``copy_impl``).
        """
        if not nbytes:
            return self.host_ns
        if self.capture is not None and not pinned and self.capture.takes(self.current):
            self.capture.refuse_pageable()
        share = self.host.pinned_share if pinned else self.host.pageable_share
        duration_ns = self.COPY_NS + round(nbytes / (self.card.pcie_bytes_per_s * share) * 1e9)
        memory = "Pinned" if pinned else "Pageable"
        name = (f"Memcpy HtoD ({memory} -> Device)" if direction == "HtoD" else f"Memcpy DtoH (Device -> {memory})")
        args = {"bytes": nbytes}
        put_aside = not pinned and direction == "HtoD" and nbytes <= self.PUT_ASIDE_BYTES
        if not (blocking or pinned or put_aside):
            return self._staged_copy(name, duration_ns, direction, args)
        end_ns = self.launch(name, duration_ns, category="gpu_memcpy", call="cudaMemcpyAsync", args=args,
                             delay_ns=self.PUT_ASIDE_NS if put_aside and not blocking else 0, engine=direction)
        if blocking:
            self.synchronize_stream()
        return end_ns

    def _staged_copy(self, name: str, duration_ns: int, direction: str, args: dict) -> int:
        """One ``cudaMemcpyAsync`` that itself lasts until the copy is done."""
        start_ns, recording, stream = self.host_ns, self.recording, self.current
        self.recording = None
        try:
            end_ns = self.launch(name, duration_ns, category="gpu_memcpy", engine=direction)
        finally:
            self.recording = recording
        begin_ns = stream.pending[-1][1]
        wait_ns = max(0, end_ns - self.host_ns)
        self.host_work(wait_ns + self.host.sync_ns)
        self.host_learns(self.known(stream))
        if recording is not None:
            self.correlation += 1
            correlation = {"correlation": self.correlation}
            self._record("cuda_runtime", "cudaMemcpyAsync", start_ns, self.host_ns - start_ns, "host", correlation)
            self._record("gpu_memcpy", name, begin_ns, end_ns - begin_ns, stream.number,
                         {**correlation, "stream": stream.number, "device": 0, **args})
        self._note_wait("cudaMemcpyAsync", wait_ns)
        return end_ns

    def release(self) -> None:
        """What is held back is launched."""
        if self.held is not None:
            self.held()

    # -- waits --------------------------------------------------------------------------------

    def wait_for(self, until_ns: int, name: str, args: dict | None = None) -> None:
        """The host waits until ``until_ns``, in the runtime call ``name``."""
        self.catch_up()
        self.wait_count += 1
        start_ns = self.host_ns
        wait_ns = max(0, until_ns - start_ns)
        self.host_work(wait_ns + self.host.sync_ns)
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
        """Tell all listeners."""
        if self.recording is None and not self.wait_hooks:
            return None
        wait = Wait(name, self.operator, wait_ns, self.locate())
        if self.recording is not None:
            self.recording.waits.append(wait)
        for hook in self.wait_hooks:
            hook(wait)
        return wait

    def synchronize_stream(self, stream: Stream | None = None) -> None:
        """``cudaStreamSynchronize``."""
        self.release()
        stream = stream or self.current
        if self.capture is not None:
            self.capture.refuse_wait(stream)
        self.wait_for(stream.ready_ns, "cudaStreamSynchronize", {"stream": stream.number})
        self.host_learns(self.known(stream))

    def synchronize_device(self) -> None:
        """``cudaDeviceSynchronize``."""
        self.release()
        if self.capture is not None:
            self.capture.refuse_wait(None)
        self.wait_for(self.device_ready_ns, "cudaDeviceSynchronize")
        self.host_learns({stream.number: stream.count for stream in self.streams.values()})

    def synchronize_event(self, mark: Mark) -> None:
        """``cudaEventSynchronize`` on an event recorded at ``mark``."""
        self._refuse_asking(mark)
        self.wait_for(mark.ns, "cudaEventSynchronize")
        self.host_learns(mark.known)

    def query(self, mark: Mark) -> bool:
        """``cudaEventQuery``: whether ``mark`` is reached. Asking takes time, so that a loop that asks ends."""
        self._refuse_asking(mark)
        self.catch_up()
        self.host_work(self.QUERY_NS)
        reached = mark.ns <= self.host_ns
        if reached:
            self.host_learns(mark.known)
            return True
        _, kernels, polled = self._asked.get(id(mark), (mark, -self.POLLED_WITHIN, False))
        again = self.kernel_count - kernels < self.POLLED_WITHIN
        self.polls += again and not polled
        self._asked[id(mark)] = mark, self.kernel_count, again  # it is held, so that no other gets its id
        if len(self._asked) > self.MOST_MARKS:
            del self._asked[next(iter(self._asked))]
        return False

    def _refuse_asking(self, mark: Mark) -> None:
        """The errors of who waits for ``mark``, or asks for it, where a capture has recorded it or is under way."""
        if isinstance(mark, CapturedMark):
            mark.capture.fail("cudaErrorCapturedEvent")
        if self.capture is not None and self.capture.mode in graphs.STRICT_MODES:
            self.capture.refuse_wait(None)

    @property
    def first_launch(self) -> int:
        """The number of the first launch since the clocks were at zero."""
        return self._first_launch + 1

    @property
    def device_ready_ns(self) -> int:
        """When all work queued so far will have ended."""
        return max(stream.ready_ns for stream in self.streams.values())

    # -- streams and events -------------------------------------------------------------------

    def new_stream(self) -> Stream:
        """A further stream; its work runs beside the others'."""
        if not self.concurrent:  # what one stream has queued has the card to itself until now
            self.concurrent = True
            for stream in self.streams.values():
                for end_ns, begin_ns, engine, share in stream.pending:
                    self._engines[engine].run(begin_ns, end_ns - begin_ns, share)
        stream = Stream(max(self.streams) + 4)
        self.streams[stream.number] = stream
        return stream

    def record_event(self, stream: Stream | None = None) -> Mark:
        """The end of the work queued in ``stream`` so far: what an event recorded now will show."""
        self.release()
        self.catch_up()
        stream = stream or self.current
        if self.capture is not None and self.capture.takes(stream):
            return CapturedMark(self.host_ns, {}, self.capture, self.capture.recorded(stream))
        return Mark(max(stream.ready_ns, self.host_ns), self.known(stream))

    def stream_wait_event(self, mark: Mark, stream: Stream | None = None) -> None:
        """Work queued in ``stream`` from now on starts no sooner than ``mark``."""
        self.release()
        stream = stream or self.current
        if isinstance(mark, CapturedMark):
            if mark.capture is not self.capture:
                mark.capture.fail("cudaErrorCapturedEvent")
            return self.capture.joins(stream, mark.after)
        if self.capture is not None and self.capture.takes(stream):
            self.capture.fail("cudaErrorStreamCaptureIsolation")
        stream.ready_ns = max(stream.ready_ns, mark.ns)
        _learn(stream.knows, mark.known)

    # -- what comes before what ---------------------------------------------------------------

    def known(self, stream: Stream) -> dict[int, int]:
        """Stream number → the last launch there that comes before what ``stream`` gets next; its own included."""
        known = {**self.host_knows, stream.number: stream.count}
        _learn(known, stream.knows)
        return known

    def host_learns(self, known: dict[int, int]) -> None:
        """The host has waited for ``known``: whatever it launches or does from now on comes after that."""
        _learn(self.host_knows, known)

    def host_has_waited_for(self, number: int, count: int) -> bool:
        """Whether what the host does now comes after the launch ``count``, of stream ``number``."""
        return count <= self._first_launch or self.host_knows.get(number, 0) >= count

    def is_ordered(self, number: int, count: int, stream: Stream) -> bool:
        """Whether work that ``stream`` gets next comes after the launch ``count``, of stream ``number``."""
        return number == stream.number or stream.knows.get(number, 0) >= count or self.host_has_waited_for(number, count)

    def _record(self, category, name, start_ns, dur_ns, row, args) -> None:
        self.recording.fields += (category, name, start_ns, dur_ns, row, args)


def _learn(known: dict[int, int], more: dict[int, int]) -> None:
    """Into ``known``: the later launch of both for each stream."""
    for number, count in more.items():
        if known.get(number, 0) < count:
            known[number] = count
