"""The inputs on which lesson 01's answers are compared, and how a function is asked."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ... import vgpu
from ...course.evidence import Case
from ...evidence import views
from ...evidence.trace import Trace
from .right import ENOUGH
from .traces import (
    BACKWARD,
    MAIN,
    SLOW_LOADER,
    SMALL_BATCH,
    SMALL_KERNELS,
    Network,
    Traps,
    busy_trace,
    host_trace,
    idle_program,
    step_ms,
    steps_at,
    training_trace,
)


def _trace_case(name: str, events: list[dict], **options) -> Case:
    return Case(name, {}, {"events": events, **options})


def trace_of(case: Case) -> Trace:
    return Trace(case.options["events"])


def utilization_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _trace_case("one stream", busy_trace(rng)),
        _trace_case("two streams at once", busy_trace(rng, streams=2)),
        _trace_case("copies between the kernels", busy_trace(rng, copies=True)),
        _trace_case("short kernels while a long one runs on another stream", busy_trace(rng, within=True)),
        _trace_case("the GPU works on after the last step", busy_trace(rng, late=True)),
        _trace_case("a copy ends the last step", busy_trace(rng, ends_with_copy=True, streams=2)),
        _trace_case("a kernel runs on from before the first step", busy_trace(rng, running=True)),
        _trace_case("no kernel at all", host_trace(rng)),
    ]


def efficiency_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _trace_case("one stream", busy_trace(rng)),
        _trace_case("copies, and work after the last step", busy_trace(rng, copies=True, late=True)),
        _trace_case("three streams of kernels with few blocks", busy_trace(rng, streams=3, small=True)),
        _trace_case("two streams", busy_trace(rng, streams=2)),
        _trace_case("some kernels do not tell", busy_trace(rng, streams=2, silent=0.4)),
        _trace_case("no kernel tells", busy_trace(rng, silent=1.1)),
    ]


def busy_sm_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed + 1)
    running = busy_trace(rng, running=True)
    return [*efficiency_cases(seed), _trace_case("a kernel runs on from before the first step", running)]


def operator_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, traps: Traps, k: int | None = None) -> Case:
        events = training_trace(rng, traps)
        # By default all that launched something: among the others the order is nobody's business.
        launched = sum(row.device_self_us > 0 for row in views.top_operators(Trace(events), None))
        return _trace_case(name, events, k=min(k or launched, launched))

    return [
        case("forward only", Traps(backward=False), 3),
        case("forward and backward", Traps(), 6),
        case("with copies and memsets", Traps(copies=True, in_flight=True)),
        case("the main thread is busy while the backward thread launches", Traps(own_thread_busy=True, copies=True)),
        case("a labelled block launches something itself", Traps(outside=True)),
    ]


def memory_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _trace_case("forward only", training_trace(rng, Traps(backward=False))),
        _trace_case("forward and backward", training_trace(rng)),
        _trace_case("frees outside operators, and the host's memory", training_trace(rng, Traps(outside=True))),
        _trace_case("the main thread is busy while the backward thread allocates",
                    training_trace(rng, Traps(own_thread_busy=True, outside=True))),
    ]


def source_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for name, traps, steps in (("forward only", Traps(backward=False), 3), ("forward and backward", Traps(), 2),
                               ("kernels launched before the recording", Traps(in_flight=True), 2),
                               ("a loader's thread", Traps(loader=True), 1),
                               ("a backward pass written in Python", Traps(python_backward=True), 2)):
        events = training_trace(rng, traps, steps)
        threads = {event["args"]["correlation"]: event["tid"] for event in events if event["cat"] == "cuda_runtime"}
        launched = [(event["name"], threads.get(event["args"]["correlation"])) for event in events
                    if event["cat"] == "kernel"]
        # The most frequent kernel of the backward pass, where there is one.
        last = BACKWARD if traps.backward else MAIN
        often = Counter(sorted(kernel for kernel, thread in launched if thread == last and kernel != "shared_kernel"))
        for kernel in {kernel: None for kernel, _ in launched if kernel in ("shared_kernel", "own_backward_kernel")} \
                | {often.most_common(1)[0][0]: None}:
            cases.append(_trace_case(f"{name}: {kernel}", events, kernel_name=kernel))
    return cases


FULL_EARLY, MEMORY_ENDS = "the card is full early", "the memory ends before the gain does"
CARDS = ("t4", "v100", "a10g", "a100", "h100", "h200")


def batch_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def pick(*cards):
        return str(rng.choice(cards))

    def width(*widths):
        return int(rng.choice(widths))

    cases, wanted = [], (
        (FULL_EARLY, lambda: (Network(int(rng.integers(5, 8)), width(768, 1024), 197, 30_000_000),
                                            pick("t4", "v100", "a10g"))),
        ("the host cannot keep up with a small batch", lambda: (
            Network(int(rng.integers(5, 8)), width(768, 1024), 197, 30_000_000), pick("h100", "h200"))),
        (MEMORY_ENDS, lambda: (
            Network(int(rng.integers(4, 7)), 512, 49, int(rng.uniform(0.1e9, 0.4e9)), fixed_ms=float(rng.uniform(2, 5))),
            pick("a10g", "a100"))),
        ("one long kernel keeps the card busy whatever the batch", lambda: (
            Network(int(rng.integers(4, 7)), 512, 49, 1_000_000, fixed_ms=float(rng.uniform(2, 4))), pick(*CARDS))),
        ("copies take their share", lambda: (Network(int(rng.integers(5, 8)), 1024, 1, 400_000), pick(*CARDS))),
    )
    for name, draw in wanted:
        while True:
            candidates = sorted({int(n) for n in rng.choice([2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256], 7,
                                                            replace=False)})
            network, card = draw()
            table = {batch: _measured(network, card, batch) for batch in candidates}
            if _telling(table) and (None in table.values() or name != MEMORY_ENDS) \
                    and (len(_enough(table)) > 1 or name != FULL_EARLY):
                break
        order = _order(rng, table)
        cases.append(Case(f"{name} ({vgpu.CARDS[card].name})", {}, {"candidates": order, "table": {
            str(batch): table[batch] for batch in order}}))
    return cases


def _order(rng: np.random.Generator, table: dict[int, dict | None]) -> list[int]:
    """The batches in an order in which neither the first that is fast enough nor the first that fits ends the search:
    those that do not fit, one that is larger than need be, the others by chance."""
    order = [int(batch) for batch in rng.permutation(list(table))]
    larger = _enough(table)[1:][-1:]
    return sorted(order, key=lambda batch: 0 if table[batch] is None else 1 if batch in larger else 2)


def _enough(table: dict[int, dict | None]) -> list[int]:
    """The batches whose throughput is near the best, the smallest first."""
    speeds = {batch: batch / row["step_ms"] for batch, row in table.items() if row is not None}
    return sorted(batch for batch, speed in speeds.items() if speed >= ENOUGH * max(speeds.values()))


def _measured(network: Network, card: str, batch: int) -> dict | None:
    trace = steps_at(network, card, batch)
    return None if trace is None else {"step_ms": round(step_ms(trace), 4),
                                       "gpu_utilization": round(views.gpu_utilization(trace), 4)}


def _telling(table: dict[int, dict | None]) -> bool:
    """Whether the answer does not hang on the last digit, and is not that of the highest utilisation."""
    fits = {batch: row for batch, row in table.items() if row is not None}
    if len(fits) < 3:
        return False
    best = max(batch / row["step_ms"] for batch, row in fits.items())
    if any(abs(batch / row["step_ms"] / best - ENOUGH) < 0.01 for batch, row in fits.items()):
        return False
    right = min(batch for batch, row in fits.items() if batch / row["step_ms"] >= ENOUGH * best)
    return right != max(fits, key=lambda batch: fits[batch]["gpu_utilization"])


def idle_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cards = [str(card) for card in rng.permutation(CARDS)]
    plans = [
        (SMALL_KERNELS, {"labelled": True}), (SMALL_BATCH, {}), (SLOW_LOADER, {"labelled": True}),
        (SMALL_BATCH, {"labelled": True, "waits": True}), (SLOW_LOADER, {"small": True, "stacks": True}),
        (SMALL_KERNELS, {"waits": True}),
        (SLOW_LOADER, {"waits": True, "stacks": True}), (SMALL_BATCH, {"labelled": True}), (SMALL_KERNELS, {}),
    ]
    cases = []
    for number, place in enumerate(rng.permutation(len(plans)), start=1):
        cause, options = plans[place]
        card = cards[place % len(cards)]
        events = idle_program(rng, cause, card, **options)
        cases.append(_trace_case(f"program {number} on a {vgpu.CARDS[card].name}", events))
    return cases
