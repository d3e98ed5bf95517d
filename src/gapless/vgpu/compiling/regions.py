"""What ``torch.compile`` does to time and memory: kernels of a compiled graph are held back, merged as Inductor merges
them, and launched where the graph ends.

with regions.running(graph) as region: out = region.returns(compiled(*args))

Inside, operators compute their values as ever and cost the host nothing. What they would launch, read and write is kept
(:mod:`.lowering`), made into groups (:mod:`.region_plans`), and launched when the graph ends, or earlier where a copy or an
event comes between, or work that is not the graph's. The backward pass of what was computed inside is held back also:
autograd numbers its nodes, and those of a run lie between two numbers.

A wait ends it: what comes behind runs as operators that nobody has compiled. Dynamo ends its graph there; where it does not
(``torch.cond``, ``capture_scalar_outputs``) the rest is faster on a GPU than here.

Memory: what lives only inside a kernel takes none. What the backward pass wants and can compute again from what is there
anyway is not written (:func:`..hardware.kernels.fusion.recomputable`); reads of it are reads of its sources.

Host, for each run: what a call takes (:mod:`..hardware.clock.compile_costs`); for each kernel of Triton's
:data:`.region_plans.TRITON_NS`, for each of a library what its operator costs, and a launch. Both are assumptions.
"""

# mypy: disable-error-code="arg-type, assignment, misc"
# A problem is a convolution's or one of its passes, and a size is no symbol: a test comes before.
from __future__ import annotations

import bisect
import itertools
import weakref
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import RLock
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import torch

from ..core.dispatch import launch_all, of_the_device
from ..core.tensor import VirtualTensor
from ..hardware.cards.specs import Host
from ..hardware.clock.compile_costs import call_ns
from ..hardware.kernels import costs, fusion
from ..hardware.memory.memory import Memory, OutOfMemory
from ..process.state import state
from .compile_times import NAME, Graph, charge, launched
from .lowering import Call, Form
from .region_plans import MOST_PLANS, Plan, plan_of

MOST_RUNS = 1024  # whose backward pass may still come

_FREE = Host(op_ns=0, view_ns=0, library_op_ns=0, launch_ns=0, sync_ns=0, python_call_ns=0)

_number = torch._C._autograd._get_sequence_nr
_node = torch._C._current_autograd_node
_ACCUMULATES = 2**64 - 1  # the sequence number of every node that only adds up a gradient


class Run(NamedTuple):
    """One run of a compiled graph: its autograd nodes' sequence numbers are those from ``first`` on, before ``end``."""

    serial: int
    graph: Hashable
    first: int
    end: int


@dataclass(slots=True)
class Forward:
    """What a run's backward pass must know. ``recomputed``: address of a block that was not written → (elements, bytes, what
    it is computed from: (address, bytes, how) each). ``laid_out``: feature maps are in channels-last order.
    ``has_run``: some of it has been launched, before a copy inside; ``waits``: backward → how often the host had waited when
    that pass began; ``whole``: no wait ends it."""

    recomputed: dict[int, tuple] = field(default_factory=dict)
    laid_out: bool = False
    has_run: bool = False
    waits: dict[bool, int] = field(default_factory=dict)
    whole: bool = False


class _Unwritten:
    """The ledger of blocks that are no memory: nothing is given back when they go."""

    def released(self, allocation) -> None:
        """It goes."""


_UNWRITTEN = _Unwritten()


def _write(allocation) -> None:
    """Something reads a block that was not to be written, as no result of its graph's, and is not the backward pass that can
    compute it again: it is memory after all. Raises OutOfMemory."""
    memory = allocation.memory
    ledger, memory.ledger = memory.ledger, None
    try:
        memory.take(allocation.nbytes, allocation.address)
    finally:
        memory.ledger = ledger
    allocation.ledger = None


def read(*values) -> None:
    """An operator of no compiled graph is given these. Raises OutOfMemory."""
    for tensor in _tensors(values):
        if tensor.allocation is not None and tensor.allocation.ledger is _UNWRITTEN:
            _write(tensor.allocation)


_forwards: dict[int, Forward] = {}  # by the run


class Block(NamedTuple):
    """A block of memory: what is left of an Allocation when it is gone."""

    address: int
    nbytes: int
    memory: Memory
    reference: weakref.ref

    @classmethod
    def of(cls, allocation) -> Block:
        """What is known of it."""
        return cls(allocation.address, allocation.nbytes, allocation.memory, weakref.ref(allocation))

    def take(self) -> None:
        """It is in use. Raises OutOfMemory."""
        self.memory.take(self.nbytes, self.address)

    def give(self) -> None:
        """It is free again."""
        self.memory.give(self.nbytes, self.address)


def _forward_of(run: int) -> Forward:
    """That of ``run``, made if it is new."""
    if run not in _forwards:
        if len(_forwards) >= MOST_RUNS:
            del _forwards[next(iter(_forwards))]
        _forwards[run] = Forward()
    return _forwards[run]


class Region:
    """What the run ``serial`` of ``graph``, forward or backward, holds back. ``kernels``: of the operator under way."""

    def __init__(self, serial: int, graph: Hashable, backward: bool):
        self.serial, self.graph, self.backward = serial, graph, backward
        self.accumulates = False
        self._captured = getattr(graph, "captured", False)
        self._read: dict[int, None] = {}  # addresses from outside, of a graph that is one launch
        self.forward = _forward_of(serial)
        self.forward.waits.setdefault(backward, state.timeline.wait_count)
        self.kernels: list[tuple] = []
        self.returned: set[int] | None = None
        self._entered = 0
        self._begin()

    def _begin(self) -> None:
        self.calls: list[Call] = []
        self.launches: list[list[tuple]] = []
        self.buffers: dict[int, int] = {}  # address → number
        self.sources: list[fusion.Step] = []  # how blocks that were not written are computed again
        self.made: dict[int, Block] = {}  # by address
        self.gone: set[int] = set()
        self.freed: dict[int, Block] = {}  # that were there before

    # -- operators ----------------------------------------------------------------------------------

    def enter(self) -> None:
        """An operator of the run begins: from now on the host's time stands, and nothing is recorded."""
        timeline = state.timeline
        self._entered += 1
        if self._entered == 1:
            self._host, self._recording = timeline.host, timeline.recording
            timeline.host, timeline.recording = _FREE, None
        if state.region is None:
            state.region = self
            state.memory.ledger = self
            timeline.held = flush

    def leave(self) -> None:
        """The operator ends."""
        if not self._entered:
            return  # it has waited
        self._entered -= 1
        if not self._entered:
            state.timeline.host, state.timeline.recording = self._host, self._recording
            if self.kernels:
                self.calls.append(Call("", (), None, (), tuple(kernel.kind for kernel, *_ in self.kernels)))
                self.launches.append(self.kernels)
                self.kernels = []

    def hold(self, kernels: list[costs.Kernel], args: tuple, out) -> None:
        """In place of launching ``kernels``."""
        if self._captured or self._recording is not None or state.timeline.capture is not None:  # what a replay shows, too
            args, out = _shapes(args), _shapes(out)
        else:
            args, out = (), None
        self.kernels += [(kernel, args, out) for kernel in kernels]

    def note(self, operator, args, kwargs, result) -> None:
        """The operator has launched what it launches."""
        if state.region is not self:
            return  # what it launched is launched: it has waited
        kernels, self.kernels = self.kernels, []
        written = _tensors(result) if not operator.mutates else [
            tensor for argument in operator.written_of(args, kwargs) for tensor in _tensors(argument)]
        if not (kernels or written) or operator.is_view or operator.is_empty:
            return
        self._keep(operator.name, kernels, (*args, *kwargs.values()) if kwargs else args, result, written)

    def used(self, name: str, reads, writes) -> None:
        """The same of an operator that autograd does not see."""
        kernels, self.kernels = self.kernels, []
        self._keep(name.removeprefix("aten::"), kernels, reads, writes, _tensors(writes))

    def _keep(self, name, kernels, args, out, written) -> None:
        if self.accumulates:
            name = ""  # no compiler's: it stays as it is
        self.calls.append(Call(name, self._forms(args), self._forms(out), tuple(map(self._form, written)),
                               tuple([kernel.kind for kernel, *_ in kernels])))
        self.launches.append(kernels)

    def _forms(self, value):
        if isinstance(value, VirtualTensor):
            return self._form(value)
        if isinstance(value, (list, tuple)):
            return tuple([self._forms(each) for each in value])
        return value if isinstance(value, (int, float, bool, str, type(None), torch.dtype)) else None

    def _form(self, tensor: VirtualTensor) -> Form:
        inner, allocation = tensor.within, tensor.allocation
        if self._captured and allocation not in _given_by_launches and allocation.address not in self.made:
            self._read[allocation.address] = None
        if allocation.ledger is _UNWRITTEN and not (self.backward and allocation.address in self.forward.recomputed):
            _write(allocation)
        return Form(self._buffer(allocation.address), tuple(inner.shape), inner.stride(), inner.storage_offset(),
                    inner.dtype, inner.numel() * inner.element_size() >= inner.untyped_storage().nbytes())

    def _buffer(self, address: int) -> int:
        number = self.buffers.get(address)
        if number is None:
            number = self.buffers[address] = len(self.buffers)
            again = self.forward.recomputed.get(address) if self.backward else None
            if again is not None:
                numel, nbytes, sources = again
                reads = tuple([fusion.Access(self._buffer(source), size, how) for source, size, how in sources])
                written = (fusion.Access(number, nbytes),)
                self.sources.append(fusion.Step("", fusion.POINTWISE, numel, reads, written))
        return number

    # -- memory (:class:`..hardware.memory.memory.Memory` asks while this is its ledger) ---------------------

    def allocated(self, allocation) -> None:
        """A block is taken: whether it is memory shows at the end."""
        self.made[allocation.address] = Block.of(allocation)

    def released(self, allocation) -> None:
        """A block goes."""
        if allocation.ledger is self:
            self.gone.add(allocation.address)
        else:
            self.freed[allocation.address] = Block.of(allocation)

    # -- the end ------------------------------------------------------------------------------------

    def returns(self, tree) -> None:
        """The graph's results are the tensors in ``tree``: what is not among them lives on for the backward pass only."""
        self.returned = {tensor.allocation.address for tensor in _tensors(tree)}

    def flush(self) -> None:
        """Merge, launch, and settle the memory. Raises torch.OutOfMemoryError."""
        timeline, memory = state.timeline, state.memory
        state.region = memory.ledger = timeline.held = None
        if self._entered:  # an operator that waits takes its time from here on
            timeline.host, timeline.recording, self._entered = self._host, self._recording, 0
        leftover, self.kernels = self.kernels, []
        try:
            if self.calls or leftover or self.freed:
                self._launch(leftover)
        except OutOfMemory as error:
            raise torch.OutOfMemoryError(str(error)) from None
        finally:
            for address in (*self.freed, *self.gone):
                if address in memory.settled:  # it ran out before
                    memory.give(0, address)
            for block in self.made.values():
                allocation = block.reference()
                if allocation is not None and allocation.ledger is self:
                    allocation.ledger = _UNWRITTEN
                if allocation is not None and self._captured:
                    _given_by_launches.add(allocation)
            self._begin()

    def _launch(self, leftover: list[tuple]) -> None:
        timeline, addresses = state.timeline, list(self.buffers)
        plan, inputs = self._plan()
        self.forward.laid_out = plan.laid_out
        self.forward.recomputed.update({
            addresses[number]: (numel, nbytes, [(addresses[each.buffer], each.nbytes, each.how) for each in sources])
            for number, (numel, nbytes, sources) in plan.recomputed.items()})
        if isinstance(self.graph, Graph):
            charge(self.graph, plan.names if self.graph.dynamic else plan.shapes, plan.kinds, plan.triton, self.backward,
                   self.forward.has_run)
            self.forward.has_run = True
        takes, gives = self._changes(plan)
        before = timeline.kernel_count, timeline.product_count
        taken: dict[int, Block] = {}
        timeline.begin_op(self.title, call_ns(inputs, trains=plan.trains or self.backward))
        one_launch = _OneLaunch(self.graph, (self.backward, plan.shapes, *self._read)) if self._captured else None
        try:
            for place, (kernels, host_ns, name) in enumerate(plan.launches(self.launches)):
                for block in takes[place]:
                    block.take()
                    taken[block.address] = block
                if one_launch is None or not one_launch.is_known:
                    _launch_group(kernels, host_ns, name)
                for block in gives[place]:
                    block.give()
                    if taken.pop(block.address, None) is None:
                        del self.freed[block.address]
            for block in takes[-1]:
                block.take()
                taken[block.address] = block
            if one_launch is not None:
                one_launch.launch()
            for kernel, args, out in leftover:
                _launch([kernel], args, out)
        except OutOfMemory:
            for block in {**taken, **self.freed}.values():
                block.give()
            for block in self.made.values():
                allocation = block.reference()
                if allocation is not None:
                    allocation.ledger = _UNWRITTEN
            raise
        finally:
            if one_launch is not None:
                one_launch.close()
            timeline.end_op()
            launched(timeline.kernel_count - before[0], timeline.product_count - before[1])

    @property
    def title(self) -> str:
        """The name of the block in a trace."""
        return f"Torch-Compiled Region: {self.graph}" + (" (backward)" if self.backward else "")

    def _changes(self, plan: Plan) -> tuple[list[list], list[list]]:
        """The blocks that each group takes before it runs, and gives back after; takes[-1]: what is taken in the end."""
        takes: list[list] = [[] for _ in range(plan.count + 1)]
        gives: list[list] = [[] for _ in range(plan.count + 1)]
        for address, block in self.made.items():
            number = self.buffers.get(address)
            gone, allocation = address in self.gone, block.reference()
            if number in plan.recomputed:
                continue
            first = plan.first_write.get(number)
            if first is not None:
                takes[first].append(block)
            elif not gone:
                takes[-1].append(block)
            if gone:
                if first is not None:
                    gives[plan.last_use[number]].append(block)
            elif allocation is not None:
                allocation.ledger = None
        for address, block in list(self.freed.items()):
            place = plan.last_use.get(self.buffers.get(address))
            if place is None:
                block.give()
                del self.freed[address]
            else:
                gives[place].append(block)
        return takes, gives

    def _plan(self) -> tuple[Plan, int]:
        """The plan of what is held back, and how many blocks came from outside."""
        outside = {number for address, number in self.buffers.items() if address not in self.made}
        living = outside | {number for address, number in self.buffers.items()
                            if address in self.made and address not in self.gone}
        unsure = frozenset()
        if self.returned is not None and not self.backward:
            unsure = frozenset(self.buffers[address] for address in self.made if address in self.buffers
                               and address not in self.gone and address not in self.returned)
        there = frozenset(number for address, number in self.buffers.items()
                          if number in living and address not in self.freed and number not in unsure)
        laid_out = self.forward.laid_out if self.backward else None
        return plan_of(self.calls, self.sources, living, unsure, there, laid_out), len(outside)


_captured: dict[tuple, Any] = {}
# Allocations that such graphs have made: their results always lie in the same place, in memory of their own.
_given_by_launches: weakref.WeakSet = weakref.WeakSet()


class _OneLaunch:
    """The kernels of one run of ``graph`` as one launch: captured while they are launched the first time (``what`` runs, on
    memory at those addresses: with other inputs a graph is captured again)."""

    def __init__(self, graph: Graph, what: tuple):
        self._key, timeline = (graph.number, *what), state.timeline
        self.is_known = self._key in _captured
        self._captures = not self.is_known and timeline.capture is None
        if self._captures:
            timeline.begin_capture("relaxed", _refused)

    def launch(self) -> None:
        """Launch it."""
        if self._captures:
            self._captures = False
            if len(_captured) >= MOST_PLANS:
                del _captured[next(iter(_captured))]
            _captured[self._key] = state.timeline.end_capture()
        if self._key in _captured:
            state.timeline.launch_graph(_captured[self._key])

    def close(self) -> None:
        """Where it has not come to a launch."""
        if self._captures:
            state.timeline.capture = None


def _refused(error: str) -> NoReturn:
    raise RuntimeError(error)


def _launch_group(kernels: list[tuple], host_ns: int, name: str | None) -> None:
    """``kernels``, each with what it was given, after the host's part, which is that of the operator ``name`` if any."""
    timeline = state.timeline
    if name is None:
        timeline.host_work(host_ns)
    else:
        timeline.begin_op(name, host_ns)
    for kernel, args, out in kernels:
        _launch([kernel], args, out)
    if name is not None:
        timeline.end_op()


def _launch(kernels: list[costs.Kernel], args: tuple, out) -> None:
    launch_all(kernels, args, out)


def _tensors(tree) -> list[VirtualTensor]:
    if isinstance(tree, VirtualTensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    return [each for item in tree for each in _tensors(item)] if isinstance(tree, (list, tuple)) else []


def _shapes(value):
    """``value`` without the tensors' values, for the kernels' geometry."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if type(value) in (list, tuple):
        return type(value)([_shapes(each) for each in value])
    return value


# -- which region an operator belongs to ----------------------------------------------------------------


class Place(NamedTuple):
    """Where the program is: in run number ``run`` of ``graph``, forward or backward. ``accumulates``: between nodes of the
    backward pass, where a gradient is added to another."""

    run: int
    graph: Hashable
    backward: bool = False
    accumulates: bool = False


_runs: list[Run] = []  # whose backward pass may come, by their sequence numbers
_serial = itertools.count()
_forward: Place | None = None
_pending: Place | None = None  # of the backward pass that is held back
_told: Place | None = None  # by a program in another process


def place() -> Place | None:
    """Where the operator that begins belongs; None where no compiled graph runs. Where the device is in another process, the
    program tells it (:func:`told`)."""
    global _pending
    if _forward is not None:
        return _forward
    node = _node()
    if node is None:
        return None
    number = node._sequence_nr()
    found = bisect.bisect_right(_runs, number, key=lambda run: run.first) - 1
    if found < 0 or number >= _runs[found].end:
        return _pending._replace(accumulates=True) if _pending is not None and number == _ACCUMULATES else None
    run = _runs[found]
    if _pending is None or _pending.run != run.serial:
        if _pending is None:
            torch.autograd.Variable._execution_engine.queue_callback(_backward_ends)
        _pending = Place(run.serial, run.graph, True)
    return _pending


@of_the_device
def _backward_ends() -> None:
    global _pending
    _pending = None
    ends()


def told(where: Place | None) -> None:
    """The program in another process is there now."""
    global _told
    _told = where
    state.regions = _OPERATORS


def left() -> None:
    """The program in another process has answered. What it has left open runs, as far as there is memory for it."""
    if _told is not None or state.region is not None:
        told(None)
        with suppress(torch.OutOfMemoryError):
            flush()
        state.regions = _OPERATORS if _runs else None


def in_words(where: Place) -> list:
    """``where``, in the graph of a :class:`Graph`, as plain JSON."""
    return [where.run, *where.graph, where.backward, where.accumulates]


def from_words(said) -> Place:
    """What :func:`in_words` has made. Raises ValueError for anything else."""
    if not isinstance(said, list) or [type(each) for each in said] != [int, int, bool, str, bool, bool, bool]:
        raise ValueError("no place in a compiled graph")
    run, number, dynamic, name, captured, backward, accumulates = said
    if not (0 <= run < 2**53 and 0 <= number < 2**53 and NAME.fullmatch(name)):
        raise ValueError("no compiled graph")
    # This process numbers its own graphs and runs from 0.
    return Place(-1 - run, Graph(-1 - number, dynamic, name, captured), backward, accumulates)


def ends(results=()) -> None:
    """The graph, or its backward pass, has run; ``results``: the tensors that it returns. Raises torch.OutOfMemoryError."""
    if state.link is not None:
        state.link.ask("region_ends", [tensor.within.number for tensor in _tensors(results)])
    elif state.region is not None:
        state.region.returns(results)
        state.region.flush()


def enter() -> Region | None:
    """The region of the operator that begins, entered; None where it belongs to none: then what is held back is launched."""
    where = _told or place()
    region = state.region
    if region is not None and (where is None or (region.serial, region.backward) != where[::2]):
        region.flush()
        region = None
    if where is None:
        return None
    if region is None:
        known = _forwards.get(where.run)
        waits = state.timeline.wait_count
        if known is not None and not known.whole and known.waits.get(where.backward, waits) != waits:
            return None  # it has waited inside
        region = Region(*where[:3])
    region.accumulates = where.accumulates
    region.enter()
    return region


def flush() -> None:
    """Launch what is held back, if anything is."""
    if state.region is not None:
        state.region.flush()


class Running:
    """A run of a compiled graph, forward."""

    results: object = ()

    def returns(self, tree):
        """``tree``, the graph's results: what is not among them lives on for the backward pass only."""
        self.results = tree
        return tree


_one_at_a_time = RLock()  # threads take turns in running compiled graphs: what is held back belongs to the process


@contextmanager
def running(graph: Hashable, whole: bool = False) -> Iterator[Running]:
    """Inside runs the compiled ``graph``. ``whole``: what waits inside is taken for what Dynamo leaves out, such as a look
    at values, or makes a constant; else a wait ends the graph. Raises torch.OutOfMemoryError where it ends."""
    global _forward
    with _one_at_a_time:
        flush()
        counting = state.counting
        paused = counting is not None and counting.pause()
        if paused:
            state.counting = None
        state.regions, before = _OPERATORS, _forward
        _forward = Place(next(_serial), graph)
        if whole:
            _forward_of(_forward.run).whole = True
        first, found = _number(), Running()
        try:
            yield found
            ends(found.results)
        except BaseException:
            with suppress(torch.OutOfMemoryError):  # what was held back runs, as far as there is memory for it
                ends()
            raise
        finally:
            run = Run(_forward.run, graph, first, _number())
            _forward = before
            if run.end > first:
                del _runs[:-MOST_RUNS]
                _runs.append(run)
            if paused:
                state.counting = counting
                counting.resume()


# What operators tell of themselves while compiled graphs run (``state.regions``).
_OPERATORS = SimpleNamespace(enter=enter, read=read)
