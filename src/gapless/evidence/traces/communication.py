"""The collectives of one rank's trace: what the host called, and NCCL's kernels that did it.

PyTorch marks each call with a block named after it (``nccl:all_reduce``, ``gloo:broadcast``), inside an operator
``record_param_comms`` that knows the group and the sizes (c10d, ParamCommsUtils.hpp); newer profilers put the same on the
kernel. A kernel belongs to the call around its launch; where a trace has no launches, to the one with its ``External id``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from .steps import launches_by_correlation
from .trace import Span, Trace, as_number
from .waits import enclosing

_CALL = re.compile(r"(nccl|gloo):\w+")
_KERNEL = re.compile(r"nccl|.*nccl(Dev)?Kernel", re.IGNORECASE)  # and RCCL's, which keep the names
_PARAMETERS = "record_param_comms"
# As Kineto writes them ("Float", "c10::Half"), as PyTorch does ("float32"), as C++ does ("long int").
_BYTES = {
    1: ("byte", "char", "bool", "uint8", "int8", "unsignedchar", "signedchar", "float8_e4m3fn", "float8_e5m2"),
    2: ("half", "bfloat16", "float16", "c10::half", "c10::bfloat16", "short", "int16"),
    4: ("float", "int", "float32", "int32"),
    8: ("double", "long", "longint", "float64", "int64", "complexfloat", "complex64", "c10::complex<float>"),
    16: ("complexdouble", "complex128", "c10::complex<double>"),
}
_SIZES = {name: size for size, names in _BYTES.items() for name in names}
# A kernel's word → the name of PyTorch's call. Send and receive are one kernel, in all-to-all too.
_FROM_KERNEL = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter",
                "Broadcast": "broadcast", "Reduce": "reduce", "SendRecv": "send_recv", "AllToAll": "all_to_all"}
# "Collective name" of record_param_comms → the same.
_FROM_PARAMETERS = {"allreduce": "all_reduce", "_allgather_base": "_all_gather_base", "allgather": "all_gather",
                    "_reduce_scatter_base": "_reduce_scatter_base", "all_to_allv": "all_to_all"}


@dataclass(frozen=True, eq=False)
class Collective:
    """One collective on one rank. ``name``: ``nccl:all_reduce``; ``group``: what the trace says of the process group, ""
    where it says nothing; ``members``: its ranks, where they are known; ``bytes``: what goes in, None where the trace does
    not tell; ``call``: the host's block, None where there is none; ``kernels``: in order of time."""

    name: str
    group: str = ""
    members: tuple[int, ...] | None = None
    bytes: int | None = None
    call: Span | None = field(default=None, repr=False)
    kernels: tuple[Span, ...] = field(default=(), repr=False)

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """(start, end) of the host's block and of the kernels: what TensorBoard's plugin counts as communication, in µs."""
        spans = (() if self.call is None else (self.call,)) + self.kernels
        return tuple(sorted(((span.start_us, span.end_us) for span in spans), key=lambda r: (r[0], -r[1])))

    @property
    def work(self) -> tuple[Span, ...]:
        """What communicates: the kernels; with Gloo, which has none, the host's block. Empty where NCCL's kernel is another
        call's, as in a coalesced group, or was not recorded."""
        return (self.call,) if self.call is not None and self.name.startswith("gloo:") else self.kernels

    @property
    def order_us(self) -> float:
        """When the host called it, or its first kernel began."""
        return self.ranges[0][0]


def is_communication(span: Span) -> bool:
    """Whether the span is a kernel of NCCL."""
    return span.category == "kernel" and bool(_KERNEL.match(span.name))


def is_call(span: Span) -> bool:
    """Whether the span is the host's block around a collective."""
    return span.category in ("annotation", "op") and bool(_CALL.match(span.name))


def find_collectives(trace: Trace) -> list[Collective]:
    """All collectives in the order of their calls."""
    spans = trace.spans
    calls, parameters = [span for span in spans if is_call(span)], [span for span in spans if span.name == _PARAMETERS]
    kernels = [span for span in spans if is_communication(span)]
    said = _said(calls, parameters)
    owned: dict[Span, list[Span]] = defaultdict(list)
    alone = []
    owners = _owners(spans, calls, kernels, said)
    for kernel in kernels:
        if kernel in owners:
            owned[owners[kernel]].append(kernel)
        else:
            alone.append(kernel)
    found = [_collective(call.name.split()[0], call, said.get(call), tuple(owned[call])) for call in calls]
    found += [_collective(_kernels_name(kernel), None, None, (kernel,)) for kernel in alone]
    return sorted(found, key=lambda each: (each.order_us, -each.ranges[0][1]))


def _said(calls: list[Span], parameters: list[Span]) -> dict[Span, Span]:
    """The ``record_param_comms`` around each call."""
    threads = defaultdict(lambda: ([], []))
    for place, spans in enumerate((parameters, calls)):
        for span in spans:
            threads[span.thread][place].append(span)
    return {call: around[-1] for outer, inner in threads.values()
            for call, around in enclosing(outer, inner).items() if around}


def _owners(spans, calls: list[Span], kernels: list[Span], said: dict[Span, Span]) -> dict[Span, Span]:
    """The call of each kernel that has one."""
    launches = launches_by_correlation(spans)
    by_thread: dict[tuple, list[Span]] = defaultdict(list)
    for call in calls:
        by_thread[call.thread].append(call)
    started: dict[tuple, list[Span]] = defaultdict(list)
    for launch in {launches.get(kernel.args.get("correlation")) for kernel in kernels} - {None}:
        started[launch.thread].append(launch)
    around = {}
    for thread, found in started.items():
        found.sort(key=lambda span: (span.start_us, -span.end_us))
        around |= {launch: outer[-1] for launch, outer in enclosing(by_thread.get(thread, []), found).items() if outer}
    numbers = {_number(call): call for call in calls} | {_number(said[call]): call for call in calls if call in said}
    numbers.pop(None, None)
    owners = {}
    for kernel in kernels:
        launch = launches.get(kernel.args.get("correlation"))
        # Kineto for some years wrote another number there: it is asked only where there is no launch.
        owner = around.get(launch) if launch is not None else numbers.get(_number(kernel))
        if owner is not None:
            owners[kernel] = owner
    return owners


def _number(span: Span) -> object:
    return span.args.get("External id", span.args.get("external id"))


def _collective(name: str, call: Span | None, said: Span | None, kernels: tuple[Span, ...]) -> Collective:
    told: dict = {}
    for span in (*kernels[:1], said):
        if span is not None and "Collective name" in span.args:
            told = {**span.args, **told}
    nbytes = None
    if call is not None:
        nbytes = _bytes_of_inputs(call)
    if nbytes is None and (elements := as_number(told.get("In msg nelems"))) is not None:
        size = _size_of(told.get("dtype"))
        nbytes = None if size is None else int(elements) * size
    members = _members(told.get("Process Group Ranks"))
    label = told.get("Process Group Name")
    group = "" if label is None else f"{label} {told.get('Process Group Ranks', '')}".strip()
    return Collective(name, group, members, nbytes, call, kernels)


def _bytes_of_inputs(call: Span) -> int | None:
    shapes, types = (call.args.get(key) for key in ("Input Dims", "Input type"))
    if not isinstance(shapes, list) or not isinstance(types, list) or not shapes:
        return None
    total = 0
    for shape, kind in zip(shapes, types):
        size, elements = _size_of(kind), 1
        if size is None or not isinstance(shape, list):
            return None
        for extent in shape:
            elements *= int(as_number(extent) or 0)
        total += elements * size
    return total


def _size_of(dtype: object) -> int | None:
    return _SIZES.get(str(dtype).replace(" ", "").lower())


def _members(text: object) -> tuple[int, ...] | None:
    """The ranks of the group, where they are all told: long lists are written with dots."""
    if not isinstance(text, str) or not re.fullmatch(r"\[\s*\d+(\s*,\s*\d+)*\s*\]", text):
        return None
    return tuple(map(int, re.findall(r"\d+", text)))


def _kernels_name(kernel: Span) -> str:
    told = kernel.args.get("Collective name")
    if told:
        return f"nccl:{_FROM_PARAMETERS.get(told, told)}"
    word = re.search(r"Kernel_([A-Za-z]+)", kernel.name)
    return f"nccl:{_FROM_KERNEL.get(word.group(1), word.group(1).lower()) if word else 'kernel'}"
