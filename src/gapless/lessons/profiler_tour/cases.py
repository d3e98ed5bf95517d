"""The inputs on which lesson 01's answers are compared, and how a function is asked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...course.evidence import Case
from ...evidence.traces.trace import Trace
from .disturbances import BLOCKS, OCCUPANCY, TRAPS, together
from .traces import busy_trace


def trace_case(name: str, events: list[dict], **options) -> Case:
    return Case(name, {}, {"events": events, **options})


def trace_of(case: Case) -> Trace:
    return Trace(case.options["events"])


def trapped_cases(rng: np.random.Generator, make: Callable[[], list[dict]], without: tuple[Callable, ...] = ()
             ) -> list[tuple[str, list[dict]]]:
    """A trace with each of the traps, and one with all of them: (the case's name, events). ``without``: what this exercise's
    text does not decide, and so does not ask."""
    traps = tuple(trap for trap in TRAPS if trap.add not in without)
    found = []
    for trap in (*traps, together(traps)):
        events = trap.add(rng, make())
        name = f"a trace with {trap.name}" if trap in traps else trap.name
        found.append((name, [events[i] for i in rng.permutation(len(events))]))
    return found


def busy_cases(rng: np.random.Generator, without: tuple[Callable, ...] = ()) -> list[Case]:
    """Of one stream or more, and of any number of steps."""

    def make() -> list[dict]:
        return busy_trace(rng, streams=int(rng.integers(1, 3)), copies=rng.random() < 0.5, late=rng.random() < 0.5,
                          steps=int(rng.integers(2, 5)))

    return [trace_case("a single step", busy_trace(rng, steps=1, streams=2)),
            trace_case("five steps", busy_trace(rng, steps=5, late=True)),
            *(trace_case(name, events) for name, events in trapped_cases(rng, make, without))]


def cases_of_last_work(rng: np.random.Generator) -> list[Case]:
    return [trace_case(f"a {words} ends the last step", busy_trace(rng, ends_with=category, streams=2))
            for words, category in (("copy", "gpu_memcpy"), ("memset", "gpu_memset"))]


def cases_of_efficiency(rng: np.random.Generator) -> list[Case]:
    zero = [{**event, "args": {**event["args"], BLOCKS: 0.0, OCCUPANCY: 0}} if event["cat"] == "kernel" else event
            for event in busy_trace(rng)]
    return [
        trace_case("one stream", busy_trace(rng)),
        trace_case("copies, and work after the last step", busy_trace(rng, copies=True, late=True)),
        trace_case("three streams of kernels with few blocks", busy_trace(rng, streams=3, small=True)),
        trace_case("two streams", busy_trace(rng, streams=2)),
        trace_case("some kernels have no value", busy_trace(rng, streams=2, silent=0.4)),
        trace_case("no kernel tells", busy_trace(rng, silent=1.1)),
        trace_case("every kernel tells 0", zero),
    ]


EARLIER = "an operator launches before the first step"
REAL = "one step of a real distributed training (CUDA)"
CARDS = ("t4", "v100", "a10g", "a100", "h100", "h200")
STEADY, DIP, ONE_FITS, SLOW = ("each larger batch brings a "
                               "few per cent", "a batch between them is slow", "only one batch fits",
                               "steps of seconds")
