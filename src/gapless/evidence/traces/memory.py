"""The GPU's memory over time, by what it is for, from a trace of :func:`gapless.memory_profile`.

The categories, in the order in which a block is asked:

- parameters (with buffers), optimizer state, gradients: as the trace's marks name them;
- from before: what was there when the recording began and no mark names: data on the GPU, results that somebody holds;
- inputs: what an operator takes that copies from the host;
- workspaces: what a kernel of the virtual GPU takes for its own time; on CUDA these are among the temporary;
- activations: what the forward pass takes and the next backward pass still finds there;
- temporary: all else that the steps take: gradients of activations, recomputed activations, results that soon go.

Memory that was there before is known by its tensors' sizes, rounded up to 512 bytes; the rest of what its blocks take counts
as "from before".
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...words import origin
from .trace import Span, Trace, as_number
from .waits import copy_direction, enclosing

MARK = "gapless: memory "
BACKWARD = "gapless: backward"
CATEGORIES = ("parameters", "optimizer state", "gradients", "from before", "inputs", "activations", "temporary",
              "workspaces")
_NAMED = CATEGORIES[:3]
_GRANULE = 512


@dataclass(frozen=True)
class CategoryRow:
    """A category's bytes: when the whole is at its peak, and its own most at any time."""

    category: str
    at_peak_bytes: int
    most_bytes: int


@dataclass
class Block:
    """A block's life, in µs of the trace: from minus infinity where it was there before, to infinity where it stays.
    ``operator``: the innermost that took it, where that is known; ``first`` and ``last``: numbers of the changes that begin
    and end its life."""

    address: int
    nbytes: int
    start_us: float = -math.inf
    end_us: float = math.inf
    category: str = "temporary"
    operator: str | None = None
    thread: tuple = ()
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True)
class _Change:
    us: float
    address: int
    nbytes: int
    total_bytes: int
    thread: tuple


@dataclass(frozen=True)
class MemoryByCategory:
    """``rows`` in the order of :data:`CATEGORIES`, those that were ever there. ``points``: (ms since the first step began,
    bytes of each category in that order), a point for each change. ``blocks``: each block's life."""

    rows: tuple[CategoryRow, ...]
    peak_bytes: int
    peak_ms: float
    points: tuple[tuple[float, tuple[int, ...]], ...] = field(repr=False)
    blocks: tuple[Block, ...] = field(repr=False)
    simulated: bool
    device_name: str

    def __getitem__(self, category: str) -> CategoryRow:
        """The row of ``category``, of no bytes where there were none. Raises KeyError where there is no such category."""
        if category not in CATEGORIES:
            raise KeyError(f"{category!r} is no category: {', '.join(CATEGORIES)}")
        return next((row for row in self.rows if row.category == category), CategoryRow(category, 0, 0))

    def __str__(self) -> str:
        lines = [f"peak {_mib(self.peak_bytes)} at {self.peak_ms:.2f} ms ({origin(self.simulated, self.device_name)})",
                 f"{'':<16}{'at the peak':>16}{'its own most':>16}"]
        lines += [f"{row.category:<16}{_mib(row.at_peak_bytes):>16}{_mib(row.most_bytes):>16}" for row in self.rows]
        return "\n".join(lines)


def memory_by_category(trace: Trace, device: int = 0) -> MemoryByCategory:
    """What the memory of GPU ``device`` is for, over time. Raises ValueError for a trace without marks or memory events."""
    marks = _marks(trace)
    changes = _changes(trace, device)
    if not marks:
        raise ValueError("this trace does not say what memory is for: record it with gapless.memory_profile(step)")
    if not changes:
        raise ValueError("nothing takes or gives back memory in this trace")
    blocks = _lives(changes, marks[0][1])
    _categorize(blocks, marks, trace)
    return _summed(blocks, changes, trace)


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:,.2f} MiB"


# -- what the trace says ----------------------------------------------------------------------------


def _marks(trace: Trace) -> list[tuple[float, dict[str, dict[int, int]]]]:
    """(µs, category → address → bytes) of each mark, in order of time."""
    about = trace.metadata.get("gapless")
    known = about.get("memory") if isinstance(about, dict) else None
    if not isinstance(known, list):
        return []
    found = []
    for span in trace.spans:
        number = span.name.removeprefix(MARK) if span.category == "annotation" and span.name.startswith(MARK) else ""
        if number.isdecimal() and int(number) < len(known):
            found.append((span.start_us, {name: {int(address): int(nbytes) for address, nbytes in pairs}
                                          for name, pairs in known[int(number)].items()}))
    return found


def _changes(trace: Trace, device: int) -> list[_Change]:
    """In order of time."""
    found = []
    for event in trace.events:
        args = event.get("args")
        if event.get("name") != "[memory]" or not isinstance(args, dict) or as_number(args.get("Device Type")) != 1:
            continue
        numbers = [as_number(value) for value in (event.get("ts"), args.get("Addr"), args.get("Bytes"),
                                                  args.get("Total Allocated"))]
        if None not in numbers and as_number(args.get("Device Id", 0)) == device:
            thread = (str(event.get("pid", "")), str(event.get("tid", "")))
            at_us, *whole = numbers
            address, nbytes, total_bytes = map(int, whole)
            found.append(_Change(at_us, address, nbytes, total_bytes, thread))
    return sorted((change for change in found if change.nbytes), key=lambda change: change.us)


# -- lives ------------------------------------------------------------------------------------------


def _lives(changes: list[_Change], known: dict[str, dict[int, int]]) -> list[Block]:
    """Every block that was there at some time; ``known``: what was there before, as the first mark names it."""
    alive = {address: Block(address, -(-nbytes // _GRANULE) * _GRANULE, category=category)
             for category, named in known.items() for address, nbytes in named.items()}
    rest = Block(-1, changes[0].total_bytes - changes[0].nbytes - sum(block.nbytes for block in alive.values()),
                 category="from before")
    blocks = [rest, *alive.values()]
    for number, change in enumerate(changes):
        block = alive.pop(change.address, None)
        if change.nbytes > 0:
            block = Block(change.address, change.nbytes, change.us, thread=change.thread, first=number)
            blocks.append(block)
            alive[change.address] = block
        elif block is not None:
            block.end_us, block.last = change.us, number
        else:  # a part of what no mark names
            rest.nbytes += change.nbytes
            blocks.append(Block(change.address, -change.nbytes, end_us=change.us, category="from before", last=number))
    rest.nbytes = max(rest.nbytes, 0)  # a block may be larger than its tensor: the others' sizes are too small then
    return blocks


def _categorize(blocks: list[Block], marks: list, trace: Trace) -> None:
    named: dict[int, list[Block]] = defaultdict(list)
    for block in blocks:
        named[block.address].append(block)
    for category in reversed(_NAMED):
        for us, known in marks:
            for address in known.get(category, ()):
                for block in named[address]:
                    if block.start_us <= us <= block.end_us:
                        block.category = category
    backward = sorted((span.start_us, span.end_us) for span in trace.spans
                      if span.category == "annotation" and span.name == BACKWARD)
    starts = [start_us for start_us, _ in backward]
    operators, copies = _operators(trace)
    for thread, found in _by_thread(block for block in blocks if block.first is not None).items():
        moments = [Span("memory", "", block.start_us, block.start_us, thread, {}) for block in found]
        around = enclosing(operators[thread], moments)
        for block, moment in zip(found, moments):
            outer = around[moment][0] if around[moment] else None
            block.operator = around[moment][-1].name if outer else None
            if block.category != "temporary":
                continue
            following = bisect_right(starts, block.start_us)
            inside = following > 0 and block.start_us < backward[following - 1][1]
            if block.last == block.first + 1 and block.start_us == block.end_us:
                block.category = "workspaces"
            elif outer in copies:
                block.category = "inputs"
            elif not inside and following < len(starts) and block.end_us > starts[following]:
                block.category = "activations"


def _operators(trace: Trace) -> tuple[dict[tuple, list[Span]], set[Span]]:
    """The operators of each thread, and those outermost ones of them that copy from the host."""
    operators, calls = defaultdict(list), defaultdict(list)
    copies = {span.args.get("correlation") for span in trace.spans
              if span.category == "memcpy" and copy_direction(span.name) == "HtoD"}
    for span in trace.spans:
        if span.category == "op" and not span.name.startswith("ProfilerStep#"):
            operators[span.thread].append(span)
        elif span.category == "runtime" and span.args.get("correlation") in copies:
            calls[span.thread].append(span)
    found = {around[0] for thread, launched in calls.items()
             for around in enclosing(operators[thread], launched).values() if around}
    return operators, found


def _by_thread(blocks: Iterable[Block]) -> dict[tuple, list[Block]]:
    found = defaultdict(list)
    for block in blocks:
        found[block.thread].append(block)
    return found


# -- sums -------------------------------------------------------------------------------------------


def _summed(blocks: list[Block], changes: list[_Change], trace: Trace) -> MemoryByCategory:
    steps = [span.start_us for span in trace.spans if span.name.startswith("ProfilerStep#")]
    origin_us = min(steps, default=changes[0].us)
    now = dict.fromkeys(CATEGORIES, 0)
    for block in blocks:
        if block.first is None:
            now[block.category] += block.nbytes
    first = {block.first: block for block in blocks if block.first is not None}
    last = {block.last: block for block in blocks if block.last is not None}
    points = [(0.0, tuple(now.values()))]
    for number, change in enumerate(changes):
        block, sign = (first[number], 1) if number in first else (last[number], -1)
        now[block.category] += sign * block.nbytes
        points.append(((change.us - origin_us) / 1e3, tuple(now.values())))
    peak_ms, peak = max(points, key=lambda point: sum(point[1]))
    most = [max(point[1][place] for point in points) for place in range(len(CATEGORIES))]
    rows = tuple(CategoryRow(category, peak[place], most[place]) for place, category in enumerate(CATEGORIES) if most[place])
    return MemoryByCategory(rows, sum(peak), peak_ms, tuple(points), tuple(blocks), trace.simulated, trace.device_name)
