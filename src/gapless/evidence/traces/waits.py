"""The waits in a trace: which calls held the host, for how long, in which operator, at which line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .trace import Span, as_number

_STREAM_SYNC = "StreamSynchronize"
# Runtime calls without their prefix (cuda, hip, cu) and what each of them waits for.
_WAITS = {
    _STREAM_SYNC: "stream",
    "DeviceSynchronize": "device",
    "CtxSynchronize": "device",
    "EventSynchronize": "event",
    "Free": "device",  # PyTorch's notes, "CUDA semantics", "Memory management"
    "Memcpy": "copy",
    "MemcpyWithStream": "copy",
}
_COPY_CALLS = ("Memcpy", "MemcpyWithStream")
# Operators that carry a copy out for another one; the other one says more.
_PLUMBING = {"aten::copy_", "aten::_to_copy", "aten::to", "aten::_local_scalar_dense"}
# What a program calls them; a trace from below the front end lacks the outer operator.
PUBLIC = {"aten::_to_copy": "aten::to", "aten::_local_scalar_dense": "aten::item"}
_PACKAGE = Path(__file__).parents[2].as_posix() + "/"
_LESSONS = _PACKAGE + "lessons/"
_FRAME = re.compile(r"(.+)\((\d+)\): ")
# How a frame's function is called when the operator runs in the backward pass of that line.
BACKWARD = "backward of "
IN_BACKWARD = " (in its backward pass)"  # behind a location
_LIBRARY_FRAME = re.compile(
    # The lessons' slow functions are in the package, and are what a learner wants to see named.
    r"(torch|gapless(?!/lessons))/|.*/(site|dist)-packages/(torch|gapless(?!/lessons))/|.*/src/gapless/(?!lessons/)|"
    # What Python itself puts between a program and its wait.
    r"(threading|contextlib|functools|runpy)\.py$|<(?!ipython-input)"
)
# Launches that outlast their kernels: at least so many, and of all launches this share, where launches wait.
_FEW_LAUNCHES, _NEARLY_ALL = 10, 0.9
_ROUNDING_US = 1.0  # older traces hold whole microseconds
# CUDA C++ programming guide, asynchronous concurrent execution; seen on an H100, too.
PUT_ASIDE_BYTES = 64 * 1024


def enclosing(spans: Iterable[Span], moments: Iterable[Span]) -> dict[Span, tuple[Span, ...]]:
    """For each moment the spans around it, outermost first; one sweep over one thread's events.

    Both must be in order of time, outer before inner.
    """
    found: dict[Span, tuple[Span, ...]] = {}
    stack: list[Span] = []
    waiting = iter(spans)
    upcoming = next(waiting, None)
    for moment in moments:
        while upcoming is not None and upcoming.start_us <= moment.start_us:
            while stack and stack[-1].end_us <= upcoming.start_us:
                stack.pop()
            stack.append(upcoming)
            upcoming = next(waiting, None)
        while stack and stack[-1].end_us <= moment.start_us:
            stack.pop()
        found[moment] = tuple(
            span
            for span in stack
            if span is not moment
            and span.end_us > moment.start_us
            and span.end_us + _ROUNDING_US >= moment.end_us
        )
    return found


@dataclass(frozen=True)
class Wait:
    """One wait of the host; ``call`` is the runtime call that ended it.

    ``operators`` are those around it, outermost first; ``correlation`` is the number
    of the copy that was waited for, or None.
    """

    call: Span
    kind: str
    wait_us: float
    start_us: float
    operators: tuple[Span, ...]
    correlation: object = None


def _call_name(span: Span) -> str:
    return _without_prefix(span.name)


@lru_cache(maxsize=1024)
def _without_prefix(name: str) -> str:
    return re.sub(r"^(cuda|hip|cu)(?=[A-Z])", "", name).removesuffix("_v2")


def copy_direction(name: str) -> str:
    """HtoD, DtoH, DtoD or PtoP, from the name of a copy; unknown where it does not tell."""
    found = re.search(r"[HD]to[HD]|PtoP", name)
    return found.group() if found else "unknown"


def copy_memory(name: str) -> str:
    """The memory on the host's side, pageable or pinned; device where there is none, else unknown."""
    for word in ("pageable", "pinned"):
        if word in name.lower():
            return word
    return "device" if copy_direction(name) in ("DtoD", "PtoP") else "unknown"


def _blocking_launches(spans: Sequence[Span]) -> set[Span]:
    """The calls that launched kernels, where launches wait until the kernel is done (CUDA_LAUNCH_BLOCKING=1). A call may be
    slow and its kernel short, so one by itself tells nothing; among 1154 launches of a real trace two are such."""
    kernels = {span.args.get("correlation"): span for span in spans if span.category == "kernel"}
    kernels.pop(None, None)
    launches = [(span, kernels[span.args["correlation"]]) for span in spans
                if span.category == "runtime" and "Launch" in span.name and "Graph" not in span.name
                and span.args.get("correlation") in kernels]
    held = {call for call, kernel in launches if kernel.end_us <= call.end_us + _ROUNDING_US}
    return held if len(held) >= max(_FEW_LAUNCHES, _NEARLY_ALL * len(launches)) else set()


def find_waits(spans: Sequence[Span]) -> list[Wait]:
    """Every wait of the host, each counted once, in order of time. ``kind`` is "launch" where launches wait themselves."""
    calls, operators, blocking = defaultdict(list), defaultdict(list), _blocking_launches(spans)
    copies = {span.args.get("correlation"): span for span in spans if span.category == "memcpy"}
    for span in spans:
        if span.category == "runtime":
            calls[span.thread].append(span)
        elif span.category == "op":
            operators[span.thread].append(span)
    waits = []
    for thread, thread_calls in calls.items():
        # What launches is never asked for its operators, and is most of a trace.
        waiting = [call for call in thread_calls
                   if call in blocking or (name := _call_name(call)) in _WAITS or name == "MemcpyAsync"]
        around = enclosing(operators[thread], waiting)
        waits += _thread_waits(thread_calls, around, copies)
        waits += [Wait(call, "launch", call.end_us - call.start_us, call.start_us, around[call])
                  for call in thread_calls if call in blocking]
    return sorted(waits, key=lambda wait: wait.start_us)


def _thread_waits(calls: list[Span], operators: dict, copies: dict) -> list[Wait]:
    """The waits of one thread; a copy and the synchronisation that completes it are one."""
    waits: list[Wait] = []
    pending: Span | None = None  # an asynchronous copy that may yet turn out to be waited for
    covered_us = float("-inf")

    def add(call: Span, kind: str, wait_us: float, first: Span, correlation: object = None) -> None:
        around = operators[call]
        waits.append(Wait(call, kind, wait_us, first.start_us, around, correlation))

    def settle() -> None:
        nonlocal pending
        if pending is not None:
            wait_us = _own_wait_us(pending, copies, operators[pending])
            if wait_us is not None:
                number = pending.args.get("correlation")
                add(pending, _copy_kind(pending, copies, operators[pending]), wait_us, pending, number)
        pending = None

    for call in calls:
        name = _call_name(call)
        if name == "MemcpyAsync":
            settle()
            pending = call
        elif name in _WAITS:
            if call.start_us < covered_us:
                continue  # a driver call inside a runtime call that is already counted
            covered_us = call.end_us
            copy = call if name in _COPY_CALLS else None
            if name == _STREAM_SYNC and pending and operators[pending][-1:] == operators[call][-1:]:
                copy, pending = pending, None
            settle()
            if copy is None:
                add(call, _WAITS[name], call.end_us - call.start_us, call)
                continue
            wait_us = call.end_us - call.start_us
            if copy is not call:
                wait_us += copy.end_us - copy.start_us
            kind = _copy_kind(copy, copies, operators[call])
            add(call, kind, wait_us, copy, copy.args.get("correlation"))
        elif pending and (
            not operators[pending] or any(word in name for word in ("Launch", "Memset", "Memcpy"))
        ):
            # What comes between makes a later synchronisation a wait of its own.
            settle()
    settle()
    return waits


def _own_wait_us(call: Span, copies: dict, operators: tuple[Span, ...]) -> float | None:
    """How long an asynchronous copy held the host by itself; None where it did not.

    A pageable copy waits, except for a small one towards the device, which the driver puts
    aside. Where its operator was over before the copy began, the host did not wait either.
    Where the operator lasts until the copy was over, the host was held that long, even if
    an older trace leaves the synchronisation out.
    """
    copy = copies.get(call.args.get("correlation"))
    if copy is None or copy_memory(copy.name) != "pageable":
        return None
    released_us = operators[-1].end_us if operators else call.end_us
    if copy_direction(copy.name) == "HtoD" and (released_us + _ROUNDING_US < copy.start_us
                                                or 0 < (as_number(copy.args.get("bytes")) or 0) <= PUT_ASIDE_BYTES):
        return None
    held_us = call.end_us
    if released_us >= copy.end_us:
        held_us = max(held_us, copy.end_us)
    return held_us - call.start_us


def _copy_kind(call: Span, copies: dict, operators: tuple[Span, ...]) -> str:
    copy = copies.get(call.args.get("correlation"))
    direction = copy_direction(copy.name) if copy is not None else "unknown"
    if direction == "unknown" and any(
        op.name in ("aten::item", "aten::_local_scalar_dense") for op in operators
    ):
        return "read-back"
    if direction in ("DtoD", "PtoP") and _call_name(call) == "MemcpyAsync":
        return "stream"
    return "read-back" if direction == "DtoH" else "copy"


def operator_name(wait: Wait) -> str | None:
    """The operator that says most about a wait: the innermost that is more than a copy."""
    # The autograd engine's own wrappers have "::" too, and say nothing.
    names = [op.name for op in wait.operators if "::" in op.name and not op.name.startswith("autograd::")]
    for name in reversed(names):
        if name not in _PLUMBING:
            return name
    if names:
        return PUBLIC.get(names[0], names[0])
    return wait.operators[-1].name if wait.operators else None


def locate(waits: Sequence[Wait], spans: Sequence[Span], main: tuple | None = None) -> list[str | None]:
    """The source line of each wait, or None.

    A wait on a thread without Python, as the backward pass has one on a real GPU, belongs to the line of the operator
    whose backward pass it is in. Where that is not known: to the line that another thread was at meanwhile: ``main``, where
    that is known and has lines.
    """
    frames = defaultdict(list)
    for span in spans:
        if span.category == "python" and source_line(span.name):
            frames[span.thread].append(span)
    calls = sorted((wait.call for wait in waits), key=lambda call: call.start_us)
    around = {thread: enclosing(thread_frames, calls) for thread, thread_frames in frames.items()}
    elsewhere = [wait for wait in waits if not around.get(wait.call.thread, {}).get(wait.call)]
    forward = forward_operators(spans) if elsewhere else {}
    origins = {wait: forward[number] for wait in elsewhere if (number := _number_of(wait)) in forward}
    begun = {}
    for thread, thread_frames in frames.items():
        begun |= enclosing(thread_frames, sorted((origin for origin in set(origins.values()) if origin.thread == thread),
                                                 key=lambda origin: origin.start_us))
    return [_line_of(wait, begun.get(origins.get(wait), ()), around, main) for wait in waits]


def forward_operators(spans: Iterable[Span]) -> dict[int, Span]:
    """Autograd's sequence number → the operator that made the node of the backward pass. Of those with one number it is the
    last to begin, as for the arrows that PyTorch draws (``torch/csrc/profiler/kineto_shim.cpp``)."""
    found: dict[int, Span] = {}
    for span in spans:
        number = node_number(span.args, of_backward=False) if span.category == "op" else None
        if number is not None and (number not in found or span.start_us >= found[number].start_us):
            found[number] = span
    return found


def node_number(args: Mapping, of_backward: bool) -> int | None:
    """Autograd's sequence number in the ``args`` of an operator of the backward pass, or else of one that makes a node of
    it. None where it is of the other kind."""
    return args.get("Sequence number") if bool(args.get("Fwd thread id")) == of_backward else None


def _number_of(wait: Wait) -> int | None:
    """Of the node in whose backward pass it is."""
    numbers = (node_number(op.args, of_backward=True) for op in wait.operators)
    return next((number for number in numbers if number is not None), None)


def _line_of(wait: Wait, begun: tuple[Span, ...], around: dict, main: tuple | None) -> str | None:
    own = around.get(wait.call.thread, {}).get(wait.call)
    if own:
        return source_line(own[-1].name)
    if begun:
        return f"{source_line(begun[-1].name)}{IN_BACKWARD}"
    for operator in reversed(wait.operators):
        # Older traces hold the stack as text, innermost frame first.
        for frame in str(operator.args.get("Call stack", "")).split(";"):
            if line := source_line(frame):
                return line
    # The thread that carries the steps is the learner's; a loader's worker is not.
    others = [around[main]] if main in around else around.values()
    frames = [found[wait.call][-1] for found in others if found[wait.call]]
    return source_line(max(frames, key=lambda frame: frame.start_us).name) if frames else None


@lru_cache(maxsize=4096)
def source_line(frame: str) -> str | None:
    """``folder/file.py:12`` or ``cell "NAME", line 12``; None for torch, this package and builtins."""
    found = _FRAME.match(frame.strip())
    if found is None:
        return None
    file, line = found.group(1).replace("\\", "/"), found.group(2)
    if (file.startswith(_PACKAGE) and not file.startswith(_LESSONS)) or _LIBRARY_FRAME.match(file):
        return None
    if file.startswith("<ipython-input") or "/ipykernel_" in file:
        file = "notebook cell"
    backward = IN_BACKWARD if frame.strip()[found.end() :].startswith(BACKWARD) else ""
    if file == "notebook cell" or re.fullmatch(r'cell ".*"', file):
        return f"{file}, line {line}{backward}"
    shown = file.removeprefix(_LESSONS) if file.startswith(_LESSONS) else "/".join(file.strip("/").split("/")[-2:])
    return f"{shown}:{line}{backward}"
