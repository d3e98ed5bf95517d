"""Which kernels a compiler makes of a graph: Inductor's rules for a GPU, in its default mode. Knows nothing of PyTorch.

A graph is a list of :class:`Step`: a loop over elements, a loop that reduces, or what a library does (a product, a
convolution, attention, a sort). As in Inductor there are two stages.

- **Inlining** (``torch/_inductor/graph.py``, ``GraphLowering.run_node``; ``ir.py``, ``StorageBox``): an elementwise result
  is not written; each reader computes it again. It is written where a library or a later graph reads it, where it
  goes through more than :data:`MOST_READS` inputs or :data:`MOST_OPERATIONS` operations and has several readers, or through
  more than :data:`MOST_READS_EVER` inputs. Reductions are always written.
- **Fusing** (``scheduler.py``, ``Scheduler.fuse_nodes``; ``codegen/simd.py``, ``SIMDScheduling.can_fuse``): two loops become
  one kernel where they share memory, run over the same elements, and nothing else must come between them. A reduction
  along rows goes with loops over all its elements, and over its results. The pair that saves most bytes goes first.

A kernel reads each block of memory from outside once, and writes what lives on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..times import streaming

if TYPE_CHECKING:
    from ..cards.specs import Card

POINTWISE, REDUCTION, LIBRARY, LISTED = "pointwise", "reduction", "library", "listed"

# torch/_inductor/config.py: realize_reads_threshold, realize_opcount_threshold, realize_acc_reads_threshold,
# score_fusion_memory_threshold, max_fusion_size, max_fusion_buffer_group_pairwise_attempts.
MOST_READS, MOST_OPERATIONS, MOST_READS_EVER = 4, 30, 8
LEAST_SHARED_BYTES = 10
MOST_NODES, MOST_PARTNERS = 64, 64
MOST_JOINED = 8  # max_pointwise_cat_inputs
ROUNDS = 10  # Scheduler.fuse_nodes

# How the elements of an access lie beside those of the loop: one for each in their order; one for each row of them. Anything
# else is the caller's own word for it: accesses with equal words go over the memory alike.
SAME, ROWS = "same", "rows"


class Access(NamedTuple):
    """``nbytes`` of the block of memory ``buffer``."""

    buffer: int
    nbytes: float
    how: object = SAME


class Step(NamedTuple):
    """A loop: ``numel`` results, each of ``reduced`` elements. ``outer``: what it reduces is not along the innermost
    dimension. ``operations``: arithmetic for each element. ``number``: the caller's, for what a library does.
    ``forced``: its result is written, and what it reads is. ``windowed``: it reads an element many times, so that what it
    reads is written unless it is a plain copy (``StorageBox.realize_hint``). ``random``: no two runs give the same.
    ``joined``: its result is what it reads, side by side. ``listed``: one of a list of tensors, all of which one operator
    takes: such loops go into one kernel, whatever they read (``scheduler.py``, ``ForeachKernelSchedulerNode``)."""

    name: str
    kind: str
    numel: int
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    reduced: int = 1
    outer: bool = False
    operations: int = 1
    number: int = -1
    forced: bool = False
    windowed: bool = False
    random: bool = False
    joined: bool = False
    listed: bool = False


@dataclass(slots=True)
class Group:
    """Steps that are one kernel. ``reads``: bytes of each block from outside; ``writes``: of each that lives on;
    ``number``: of what a library does, else -1; ``operations``: arithmetic in all."""

    kind: str
    numel: int
    reduced: int
    outer: bool
    names: list[str]
    reads: dict[int, float]
    writes: dict[int, float]
    operations: float
    number: int = -1

    @property
    def nbytes(self) -> float:
        """What the kernel moves."""
        return sum(self.reads.values()) + sum(self.writes.values())


@dataclass(frozen=True, slots=True)
class Fused:
    """The time of such a kernel, of ``kind``: the larger of its bytes, at the rate of kernels that are not fused, and of its
    ``operations`` (float32)."""

    kind: str
    nbytes: float
    operations: float

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        rate = card.bandwidth_bytes_per_s * card.memory_share(self.kind)
        return (card.kernel_start_ns.get(self.kind, 0) / 1e9,
                max(self.nbytes * streaming.over_l2(card, self.nbytes) / rate, self.operations / card.peak_flops["float32"]))


@dataclass(slots=True)
class _Node:
    kind: str
    numel: int
    reduced: int
    outer: bool
    names: list[str]
    reads: dict[int, Access]
    writes: dict[int, Access]
    operations: float
    number: int
    order: int
    # Of the group that it is one of: its nodes, and all nodes that come before it, as bits.
    bits: int = 0
    before: int = 0
    size: int = 1
    listed: bool = False


@dataclass(slots=True)
class _Inlined:
    """A result that nobody has written."""

    names: list[str]
    numel: int
    nbytes: float
    reads: dict[int, Access] = field(default_factory=dict)
    operations: float = 0.0
    listed: bool = False


def groups(steps: list[Step], lasting: set[int]) -> list[Group]:
    """The kernels for ``steps``, in the order in which they run. ``lasting``: blocks that are there afterwards."""
    nodes = _Lowering(steps, lasting).nodes
    return _kernels(_listed(_fused(nodes)), lasting)


def recomputable(steps: list[Step], wanted: set[int], there: set[int]) -> dict[int, tuple[Access, ...]]:
    """Of the blocks ``wanted`` later those that do not have to be written, since they are elementwise results of blocks that
    are ``there`` then: what they are computed from (``torch/_functorch/partitioners.py``,
    ``min_cut_rematerialization_partition``: elementwise work is done again, reductions and libraries' work are not)."""
    known: dict[int, dict[int, Access] | None] = {}
    for step in steps:
        found: dict[int, Access] | None = {}
        if step.kind != POINTWISE or step.random or step.forced:
            found = None
        else:
            for access in step.reads:
                inner = {access.buffer: access} if access.buffer in there else known.get(access.buffer)
                if inner is None:
                    found = None
                    break
                for buffer, each in inner.items():
                    found[buffer] = _joined(found.get(buffer), each if access.how == SAME else access)
        for access in step.writes:
            known[access.buffer] = found
    return {buffer: tuple(known[buffer].values()) for buffer in wanted if known.get(buffer)}


# -- inlining ---------------------------------------------------------------------------------------


def _joined(one: Access | None, other: Access) -> Access:
    if one is None or one == other:
        return other
    return other if other.nbytes > one.nbytes else one


class _Lowering:
    def __init__(self, steps: list[Step], lasting: set[int]):
        self.nodes: list[_Node] = []
        self._inlined: dict[int, _Inlined] = {}
        readers: dict[int, int] = defaultdict(int)
        by_library: set[int] = set()
        users: dict[int, set[str]] = defaultdict(set)
        for step in steps:
            for access in step.reads:
                readers[access.buffer] += 1
                users[access.buffer].add(step.kind)
                if step.kind == LIBRARY or step.forced:
                    by_library.add(access.buffer)
        for step in steps:
            if step.joined and self._join(step, users[step.writes[0].buffer], readers):
                continue
            reads, operations, names = self._reads(step)
            if step.kind != POINTWISE:
                self._add(step.kind, step, names, reads, {a.buffer: a for a in step.writes}, operations)
                continue
            for access in step.writes:
                value = _Inlined(names, step.numel, access.nbytes, reads, operations, step.listed)
                self._inlined[access.buffer] = value
                several = readers[access.buffer] > 1
                if (step.forced or access.buffer in lasting or access.buffer in by_library or len(reads) > MOST_READS_EVER
                        or (several and (len(reads) > MOST_READS or operations > MOST_OPERATIONS))):
                    self._write(access.buffer)

    def _reads(self, step: Step) -> tuple[dict[int, Access], float, list[str]]:
        """What the loop of ``step`` reads, computing again what was not written."""
        reads: dict[int, Access] = {}
        operations, names = step.operations, [step.name]
        for access in step.reads:
            value = self._inlined.get(access.buffer)
            if value is not None and step.windowed and len(value.reads) > 1:
                self._write(access.buffer)
                value = None
            if value is None or step.kind == LIBRARY:
                reads[access.buffer] = _joined(reads.get(access.buffer), access)
                continue
            names = value.names + names
            operations += value.operations
            for buffer, each in value.reads.items():
                if access.how != SAME:
                    each = Access(buffer, each.nbytes, access.how if each.how == SAME else (access.how, each.how))
                reads[buffer] = _joined(reads.get(buffer), each)
        return reads, operations, names

    def _join(self, step: Step, users: set[str], readers: dict[int, int]) -> bool:
        """Whether each part of a concatenation is computed where it is to lie (``ir.py``, ``ConcatKernel``). It is one loop
        where only loops read it, and where nobody else reads what is computed for it (``lowering.py``, ``cat``)."""
        shared = any(access.buffer in self._inlined and readers[access.buffer] > 1 for access in step.reads)
        if len(step.reads) <= MOST_JOINED and (users == {POINTWISE} or not shared):
            return False
        out, whole = step.writes[0], sum(access.nbytes for access in step.reads)
        for access in step.reads:
            part = step._replace(numel=round(step.numel * access.nbytes / max(whole, 1)), reads=(access._replace(how=SAME),))
            reads, operations, names = self._reads(part)
            self._add(POINTWISE, part, names, reads, {out.buffer: out._replace(nbytes=access.nbytes)}, operations)
        return True

    def _write(self, buffer: int) -> None:
        value = self._inlined.pop(buffer)
        self._add(POINTWISE, Step("", POINTWISE, value.numel, (), (), listed=value.listed), value.names, value.reads,
                  {buffer: Access(buffer, value.nbytes)}, value.operations)

    def _add(self, kind, step, names, reads, writes, operations) -> None:
        self.nodes.append(_Node(kind, step.numel, step.reduced, step.outer, names, reads, writes,
                                operations * step.numel * step.reduced, step.number, len(self.nodes), listed=step.listed))


# -- fusing -----------------------------------------------------------------------------------------


def _fused(nodes: list[_Node]) -> list[_Node]:
    """Nodes merged where they may be."""
    writers: dict[int, list[_Node]] = defaultdict(list)  # several, of what is joined
    for place, node in enumerate(nodes):
        node.bits = 1 << place
        for buffer in node.reads:
            for each in writers[buffer]:
                node.before |= each.bits | each.before
        for buffer in node.writes:
            writers[buffer].append(node)
    for _ in range(ROUNDS):
        before = len(nodes)
        nodes = _once(nodes)
        if len(nodes) == before:
            break
    return nodes


def _once(nodes: list[_Node]) -> list[_Node]:
    users: dict[int, list[_Node]] = defaultdict(list)
    for node in nodes:
        if node.kind != LIBRARY:
            for buffer in {**node.reads, **node.writes}:
                users[buffer].append(node)
    pairs: dict[tuple[int, int], tuple] = {}
    for found in users.values():
        for place, one in enumerate(found):
            for other in found[place + 1:place + 1 + MOST_PARTNERS]:
                if (one.order, other.order) not in pairs and _agree(one, other):
                    shared = _shared_bytes(one, other)
                    if shared >= LEAST_SHARED_BYTES:
                        score = one.kind == other.kind, shared, one.order - other.order
                        pairs[one.order, other.order] = score, one, other
    merged: dict[int, int] = {}  # order → that of what the node has become part of
    alive = {node.order: node for node in nodes}
    for _, one, other in sorted(pairs.values(), key=lambda each: each[0], reverse=True):
        one, other = (alive[_last(merged, node.order)] for node in (one, other))
        if one is other or one.size + other.size > MOST_NODES or not _agree(one, other) or _between(one, other, alive):
            continue
        if not _follows(one, other):
            continue
        group = _merge(one, other)
        del alive[other.order], alive[one.order]
        for node in alive.values():
            if node.before & group.bits:
                node.before |= group.before | group.bits
        merged[min(one.order, other.order)] = group.order
        alive[group.order] = group
    return sorted(alive.values(), key=lambda node: node.order)


def _last(merged: dict[int, int], order: int) -> int:
    while order in merged:
        order = merged[order]
    return order


def _agree(one: _Node, other: _Node) -> bool:
    """Whether their loops can be one (``SIMDScheduling.can_fuse``)."""
    if (one.kind == REDUCTION) == (other.kind == REDUCTION):
        return one.numel == other.numel and one.reduced == other.reduced and one.outer == other.outer
    reduction, loop = (one, other) if one.kind == REDUCTION else (other, one)
    if loop.numel == reduction.numel:
        return True
    return loop.numel == reduction.numel * reduction.reduced and not reduction.outer


def _shared_bytes(one: _Node, other: _Node) -> float:
    """Bytes that do not have to be moved twice."""
    found = 0.0
    for buffer, access in one.reads.items():
        match = other.reads.get(buffer) or other.writes.get(buffer)
        if match is not None and match.how == access.how:
            found += min(access.nbytes, match.nbytes)
    for buffer, access in one.writes.items():
        match = other.reads.get(buffer)
        if match is not None and match.how in (SAME, ROWS):
            found += min(access.nbytes, match.nbytes)
    return found


def _follows(one: _Node, other: _Node) -> bool:
    """Whether what one reads of the other lies as the other has just computed it, and all of it
    (``Scheduler.can_fuse_vertical``)."""
    for writes, reads in ((one.writes, other.reads), (other.writes, one.reads)):
        for buffer, written in writes.items():
            if buffer in reads and (reads[buffer].how not in (SAME, ROWS) or reads[buffer].nbytes > written.nbytes):
                return False
    return True


def _between(one: _Node, other: _Node, alive: dict[int, _Node]) -> bool:
    """Whether a third must come after the one and before the other (``Scheduler.will_fusion_create_cycle``)."""
    if not (other.before & one.bits or one.before & other.bits):
        return False
    first, last = (one, other) if other.before & one.bits else (other, one)
    return any(node.before & first.bits and last.before & node.bits for node in alive.values()
               if node is not one and node is not other)


def _merge(one: _Node, other: _Node) -> _Node:
    first, last = (one, other) if one.order < other.order else (other, one)
    reduction = next((node for node in (one, other) if node.kind == REDUCTION), None)
    reads = dict(first.reads)
    for buffer, access in last.reads.items():
        reads[buffer] = _joined(reads.get(buffer), access)
    shape = reduction or first
    return _Node(shape.kind, shape.numel, shape.reduced, shape.outer, first.names + last.names, reads,
                 {**first.writes, **last.writes}, one.operations + other.operations, -1, last.order,
                 one.bits | other.bits, (one.before | other.before) & ~(one.bits | other.bits), one.size + other.size,
                 one.listed and other.listed)


def _listed(nodes: list[_Node]) -> list[_Node]:
    """Of loops over a list's tensors as many as nothing comes between become one."""
    found: list[_Node] = []
    together: _Node | None = None
    for node in nodes:
        if not node.listed:
            found.append(node)
        elif together is None or (node.before & together.bits or together.before & node.bits
                                  or _between_any(node, together, nodes)):
            together = node
            found.append(node)
        else:
            found.remove(together)
            together = _merge(together, node)
            together.kind = LISTED
            found.append(together)
            for each in nodes:
                if each.before & together.bits:
                    each.before |= (together.before | together.bits) & ~each.bits
    return found


def _between_any(one: _Node, other: _Node, nodes: list[_Node]) -> bool:
    return any((node.before & one.bits and other.before & node.bits) or (node.before & other.bits and one.before & node.bits)
               for node in nodes)


# -- kernels ----------------------------------------------------------------------------------------


def _kernels(nodes: list[_Node], lasting: set[int]) -> list[Group]:
    readers: dict[int, int] = defaultdict(int)
    for node in nodes:
        for buffer in node.reads:
            readers[buffer] += buffer not in node.writes
    found = []
    for node in _in_order(nodes):
        reads = {buffer: access.nbytes for buffer, access in node.reads.items() if buffer not in node.writes}
        writes = {buffer: access.nbytes for buffer, access in node.writes.items()
                  if buffer in lasting or readers[buffer] or node.kind == LIBRARY}
        if writes or node.kind == LIBRARY:
            found.append(Group(node.kind, node.numel, node.reduced, node.outer, list(dict.fromkeys(node.names)), reads,
                               writes, node.operations, node.number))
    return found


def _in_order(nodes: list[_Node]) -> list[_Node]:
    """As the program had them, but none before what it needs (``Scheduler.topological_sort_schedule``)."""
    found: list[_Node] = []
    done = 0
    waiting = sorted(nodes, key=lambda node: node.order, reverse=True)
    while waiting:
        node = waiting.pop()
        if node.bits & done:
            continue
        missing = node.before & ~done
        if missing:
            waiting.append(node)
            waiting += sorted((each for each in nodes if each.bits & missing), key=lambda each: each.order, reverse=True)
            continue
        found.append(node)
        done |= node.bits
    return found
