"""The time of a collective: when it can begin here and elsewhere, when it ends for all, which stream waits for it.

As in NCCL's process group (c10d, ProcessGroupNCCL.cpp): a collective with ``async_op=True`` runs on a stream of the group's
own, behind what the current stream holds, and ``wait()`` lets the current stream wait, not the host; one with
``async_op=False`` runs on the current stream. It begins when the last process has come to it in virtual time, and ends for
all when the modelled time (:mod:`..hardware.times.interconnect`) is over. Until the others have come it takes its part
of the card too.

The processes tell each other where they are (:mod:`.meeting`) before any value is moved, so that a wrong
order, another size or a process that has ended is an error that says who waits where (:mod:`.standstill`).
"""

from __future__ import annotations

import functools
import json
import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from ..hardware.clock.streams import Mark, Stream
from ..hardware.clock.timeline import Timeline
from ..hardware.times import interconnect
from ..ordering import backward_errors
from ..process.state import state
from . import standstill
from .meeting import Gone, Meeting, until_set
from .standstill import Standstill

_OURS = str(Path(__file__).parents[1]) + os.sep
MACHINES = "GAPLESS_MACHINES"  # over how many machines the ranks are spread, in their order
MACHINE = "GAPLESS_MACHINE"  # what each is (interconnect.find_machine); empty: what the card usually stands in

# Kind of a collective → NCCL's function.
FUNCTIONS = {"barrier": "AllReduce", "allreduce": "AllReduce", "allreduce_coalesced": "AllReduce",
              "all_gather": "AllGather", "_allgather_base": "AllGather", "allgather_into_tensor_coalesced": "AllGather",
              "reduce_scatter": "ReduceScatter", "_reduce_scatter_base": "ReduceScatter",
              "reduce_scatter_tensor_coalesced": "ReduceScatter", "broadcast": "Broadcast", "reduce": "Reduce",
              "gather": "SendRecv", "scatter": "SendRecv", "all_to_all": "SendRecv", "all_to_allv": "SendRecv",
              "send": "SendRecv", "recv": "SendRecv", "recv_any_source": "SendRecv"}
# Of these every process may give or take another number of bytes.
_OF_ANY_SIZE = ("all_gather", "all_to_all", "all_to_allv", "gather", "scatter", "barrier")

class _Place:
    """What a group has: its stream, its meetings, how many collectives it has come to."""

    def __init__(self, group: dist.ProcessGroup):
        self.ranks = dist.get_process_group_ranks(group)
        self.rank = self.ranks.index(dist.get_rank()) if dist.is_initialized() else group.rank()
        self.name, self.number = group.group_name, 0
        self._streams: dict[tuple[int, int] | None, Stream] = {}  # of what goes from one to another; None: of the group
        self._timeline: Timeline | None = None
        self._what = ""
        self._where: str | None = None
        known = dist.distributed_c10d._world.pg_map.get(group)
        if known is None:
            raise RuntimeError("a process group that PyTorch does not know: make it by init_process_group or new_group")
        self._store = known[1]
        self.meeting: Meeting | None = None
        machines = int(os.environ.get(MACHINES, 1))
        on_each = max(1, int(os.environ.get("WORLD_SIZE", len(self.ranks))) // machines)
        self.machines = [rank // on_each for rank in self.ranks]
        machine = os.environ.get(MACHINE)
        self.machine = interconnect.find_machine(machine) if machine else None
        self._messages: Counter = Counter()  # by from, to and tag

    def stream(self, ends: tuple[int, int] | None = None) -> Stream:
        """The group's own, or that of what goes from one process to another, behind what the current stream holds. Made when
        it is first needed; again on another card."""
        timeline = state.timeline
        if self._timeline is not timeline:
            self._timeline, self._streams = timeline, {}
        if ends not in self._streams:
            self._streams[ends] = timeline.new_stream()
        timeline.stream_wait_event(timeline.record_event(), self._streams[ends])
        return self._streams[ends]

    def next_message(self, ends: tuple[int, int], tag: int) -> tuple[dist.Store, str]:
        """Where its sender tells when it begins: a store, and the key there."""
        self._messages[*ends, tag] += 1
        return self._store, f"gapless {ends[0]} to {ends[1]}, {tag}: {self._messages[*ends, tag]}"

    def meet(self, message: dict, what: str, where: str | None) -> list[dict]:
        """The messages of all. Raises Standstill."""
        self.number += 1
        self._what, self._where = what, where
        try:
            with standstill.waiting(what, where, f"{self.name}: {self.number}", self.ranks):
                if self.meeting is None:
                    store = dist.PrefixStore("gapless", self._store)
                    self.meeting = Meeting(store, self.rank, len(self.ranks), self._look)
                return self.meeting.meet(message)
        except Gone as gone:
            raise _without(gone, self.rank, self.ranks, what, where) from None

    def _look(self, waited_s: float, missing: list[int]) -> None:
        _look(waited_s, self._what, self._where, [self.ranks[rank] for rank in missing])


def _look(waited_s: float, what: str, where: str | None, missing: list[int]) -> None:
    """:func:`standstill.look`, whose Python nobody counts: how often it is done hangs on real time. (No ``with``: what
    ``contextlib`` does in Python would count.)"""
    counting = state.counting
    paused = counting is not None and counting.pause()
    try:
        standstill.look(waited_s, what, where, missing)
    finally:
        if paused:
            counting.resume()


def _without(gone: Gone, rank: int, ranks: list[int], what: str, where: str | None) -> Standstill:
    who = "the process that keeps the store, rank 0 as a rule" if gone.rank is None else f"rank {ranks[gone.rank]}"
    line = where or "a line that is not known"
    return Standstill(
        f"rank {ranks[rank]} waits in {what} at {line} for {who}, which has ended or left the group. Every rank must call "
        "the same collectives, and as often: with DistributedDataParallel as many batches on each")


def gather(store, name: str, rank: int, ranks: list[int]) -> None:
    """Wait until the processes ``ranks`` are about to make the same group ``name``, whose store is ``store`` and in which
    ``rank`` is this process's number. Raises Standstill where they make another one in its place, or have ended."""
    if len(ranks) == 1:
        return
    where, what = state.timeline.locate(), f"the making of a group of {standstill.ranks(ranks)}"
    keys = {f"gapless {number}": each for number, each in enumerate(ranks)}
    store.set(f"gapless {rank}", json.dumps(ranks))
    try:
        with standstill.waiting(what, where, f"group {name}", ranks):
            until_set(store, keys, lambda waited_s, missing: _look(waited_s, what, where, missing))
    except Gone as gone:
        raise _without(gone, rank, ranks, what, where) from None
    for key, each in keys.items():
        theirs = json.loads(store.get(key))
        if theirs != ranks:
            raise Standstill(f"the ranks make different groups in the same place: rank {ranks[rank]} one of "
                             f"{standstill.ranks(ranks)} at {where or 'a line that is not known'}, and rank {each} one of "
                             f"{standstill.ranks(theirs)}. Every rank must call new_group for each group, in the same order")


_places: weakref.WeakKeyDictionary[dist.ProcessGroup, _Place] = weakref.WeakKeyDictionary()

# The timeline, the number of its launch, and the end of the collective that was called last.
last: tuple | None = None


def place_of(group: dist.ProcessGroup) -> _Place:
    """That of ``group``."""
    known = _places.get(group)
    if known is None:
        known = _places[group] = _Place(group)
    return known


def left(group: dist.ProcessGroup) -> None:
    """``group`` is destroyed: who waits for this process in it will see that it has left. What ``new_group`` gives to who is
    no member is passed over."""
    place = _places.pop(group, None) if isinstance(group, dist.ProcessGroup) else None
    if place is not None and place.meeting is not None:
        place.meeting.close()


def run(collective, group: dist.ProcessGroup, async_op: bool, reduction: str, root: int | None
        ) -> tuple[Mark, Stream] | None:
    """``collective`` takes its time among all processes of ``group``; returns its end, which who needs the result must wait
    for, and its stream. None where this process is alone. ``reduction``: such as "SUM"; ``root``: where there is one. Raises
    Standstill where the processes call different collectives, or one of them has ended."""
    global last
    timeline = state.timeline
    if len(collective.ranks) == 1 or timeline.capture is not None:
        return None
    place, where, what = place_of(group), timeline.locate(), described(collective)

    def meet(ready_ns: int) -> tuple[int, int, str]:
        every = place.meet({"kind": collective.kind, "given": collective.given, "taken": collective.taken,
                            "dtype": str(collective.dtype), "op": reduction, "root": root, "ready": ready_ns, "what": what,
                            "where": where, "card": state.card.key}, what, where)
        _compare(every, place.ranks)
        function = FUNCTIONS[collective.kind]
        course = interconnect.course(function, _nbytes(collective.kind, every), place.machines, state.card, place.machine)
        return (max(each["ready"] for each in every) + course.ns, course.share(state.card),
                _kernel(function, course, reduction, collective.dtype))

    stream = timeline.current
    if async_op:
        stream = place.stream()
    end = timeline.launch_together(stream, arguments(collective))(meet)
    last = timeline, timeline.launches, end
    if _hook is not None and async_op:
        _hook.has_called(end)
    return end, stream


def transfer(collective, group: dist.ProcessGroup, ends: tuple[int, int], tag: int) -> Callable[[], Mark]:
    """Bytes go between two processes of ``group``, from and to these of its numbers. Returns what gives the end on the
    device; of what is received it may be called when it is there. A receiving kernel waits for its sender's; a sending one
    is taken to find room for its bytes."""
    place, timeline = place_of(group), state.timeline
    sends, what, where = place.rank == ends[0], described(collective), timeline.locate()
    store, key = place.next_message(ends, tag)
    course = interconnect.course("SendRecv", max(collective.given, collective.taken), [place.machines[end] for end in ends],
                                 state.card, place.machine)
    launched = timeline.launch_together(place.stream(ends), arguments(collective))

    def meet(begin_ns: int) -> tuple[int, int, str]:
        if sends:
            store.set(key, str(begin_ns))
        else:
            sender = place.ranks[ends[0]]
            try:
                with standstill.waiting(what, where, key, [sender]):
                    until_set(store, {key: sender}, lambda waited_s, missing: _look(waited_s, what, where, missing))
            except Gone as gone:
                raise _without(gone, place.rank, place.ranks, what, where) from None
            begin_ns = max(begin_ns, int(store.get(key)))
            store.delete_key(key)
        return begin_ns + course.ns, course.share(state.card), _kernel("SendRecv", course, "", collective.dtype)

    found: list[Mark] = [launched(meet)] if sends else []

    def end() -> Mark:
        if not found:
            found.append(launched(meet))
        return found[0]

    return end


def asked_by_cpp() -> bool:
    """Whether the operator under way was called by C++ that autograd runs, and not by Python."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not backward_errors.RUN and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame is not None and frame.f_code is backward_errors.RUN


def awaited_at_the_end(end: Mark) -> None:
    """When the backward pass has run, before what was to be done then and is asked for later, the caller's stream waits
    for ``end``."""
    if torch._C._current_autograd_node() is None:
        return _wait(end)  # the pass has run: the first with static_graph=True
    torch.autograd.Variable._execution_engine.queue_callback(functools.partial(_wait, end))


class _Hook:
    """While a communication hook of DDP's runs: what it does behind its first collective goes to a stream beside the
    backward pass, as what hangs on a future does on CUDA (ivalue_inl.h, ``Future::invokeCallback``)."""

    def __init__(self):
        self.before = state.timeline.current
        self.stream: Stream | None = None

    def has_called(self, end: Mark) -> None:
        """A collective that is done at ``end`` has been called."""
        timeline = state.timeline
        if self.stream is None:
            if _beside is None or _beside[0] is not timeline:
                _set_beside(timeline)
            self.stream = _beside[1]
            timeline.stream_wait_event(timeline.record_event(), self.stream)
            timeline.current = self.stream
        timeline.stream_wait_event(end)


_hook: _Hook | None = None
_beside: tuple | None = None  # the timeline, and the stream of hooks there


def _set_beside(timeline) -> None:
    global _beside
    _beside = timeline, timeline.new_stream()


def in_hook(hook):
    """``hook`` of DDP's, with a stream for what it does behind its collective, that the backward pass's end waits for."""
    @functools.wraps(hook)
    def run(*args):
        global _hook
        before, _hook = _hook, _Hook()
        freed = list(state.memory.freed)
        try:
            return hook(*args)
        finally:
            if _hook.stream is not None:
                end = state.timeline.record_event(_hook.stream)
                state.timeline.current = _hook.before
                awaited_at_the_end(end)
                state.memory.freed[:] = freed  # a future's tensors are recorded on its stream
            _hook = before

    return run


def _wait(end: Mark) -> None:
    state.timeline.stream_wait_event(end)


def wait_for_the_last() -> None:
    """The current stream waits for the collective that was called last, if any."""
    timeline = state.timeline
    if last is not None and last[0] is timeline and last[1] >= timeline.first_launch and timeline.capture is None:
        timeline.stream_wait_event(last[2])


def described(collective) -> str:
    """``allreduce of 1000 float32``."""
    if collective.dtype is None or collective.kind == "barrier":
        return collective.kind
    name = str(collective.dtype).removeprefix("torch.")
    return f"{collective.kind} of {max(collective.given, collective.taken) // collective.dtype.itemsize} {name}"


def arguments(collective) -> dict:
    """What Kineto writes of it (c10d, ParamCommsUtils.hpp; Kineto, output_json.cpp)."""
    size = collective.dtype.itemsize if collective.dtype is not None else 1
    return {"Collective name": collective.kind, "In msg nelems": collective.given // size,
            "Out msg nelems": collective.taken // size, "dtype": _SCALARS.get(collective.dtype, "Byte"),
            "Group size": len(collective.ranks), "Process Group Name": collective.group,
            "Process Group Ranks": str(list(collective.ranks))}


# As c10::toString gives them.
_SCALARS = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
            torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
            torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}
# As the kernels of NCCL are called after them; what only moves bytes is called after int8_t.
_IN_NAMES = {torch.float32: "float", torch.float64: "double", torch.float16: "half", torch.bfloat16: "__nv_bfloat16",
             torch.int64: "int64_t", torch.int32: "int32_t", torch.uint8: "uint8_t", torch.bool: "uint8_t"}
_OPERATIONS = {"AVG": "SumPostDiv", "PRODUCT": "Prod", "PREMUL_SUM": "PreMulSum"}


def _kernel(function: str, course: interconnect.Course, reduction: str, dtype: torch.dtype | None) -> str:
    """The kernel's name, in the form of NCCL before 2.19, by which tools know a collective."""
    reduces = function in ("AllReduce", "ReduceScatter", "Reduce")
    operation = _OPERATIONS.get(reduction, reduction.capitalize() or "Sum") if reduces else "Sum"
    return (f"ncclKernel_{function}_{course.algorithm}_{course.protocol}_{operation}_"
            f"{_IN_NAMES.get(dtype, 'int8_t') if reduces else 'int8_t'}(ncclDevComm*, unsigned long, ncclWork*)")


def _nbytes(kind: str, every: list[dict]) -> int:
    """As :func:`interconnect.course` takes them."""
    if kind == "barrier":
        return 4  # an AllReduce of one number
    given, taken = (max(each[name] for each in every) for name in ("given", "taken"))
    if FUNCTIONS[kind] != "SendRecv":
        return max(given, taken)
    most = taken if kind == "gather" else given if kind == "scatter" else max(given, taken)
    return most * (len(every) - 1) // len(every)  # what a rank gives to itself goes over no link


def _compare(every: list[dict], ranks: list[int]) -> None:
    """Raises Standstill where the processes do not call the same, or are on different cards."""
    names = ("kind", "root") if every[0]["kind"] in _OF_ANY_SIZE else ("kind", "root", "given", "taken", "dtype", "op")
    for message in every:
        if any(message[name] != every[0][name] for name in names):
            calls = "; ".join(f"rank {rank} calls {each['what']} at {each['where'] or 'a line that is not known'}"
                              for rank, each in zip(ranks, every))
            raise Standstill(f"the ranks call different collectives in the same place: {calls}. On GPUs they would "
                             "wait forever, or get wrong values: every rank must call the same collectives, of the same "
                             ""
                             "sizes, in the same order, and with DistributedDataParallel have as many batches as the others")
        if message["card"] != every[0]["card"]:
            raise ValueError(f"the ranks model different cards ({every[0]['card']}, {message['card']}): give all the same")
