"""The inputs on which lesson 01's answers are compared, and how a function is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from ... import vgpu
from ...course.evidence import Case
from ...evidence import views
from ...evidence.trace import Trace
from .disturbances import OCCUPANCY, TRAPS, early_work, together
from .real import real_step
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


def _trapped(rng: np.random.Generator, make: Callable[[], list[dict]], without: tuple[Callable, ...] = ()
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


def _busy_cases(rng: np.random.Generator, without: tuple[Callable, ...] = ()) -> list[Case]:
    """Of one stream or more, and of any number of steps."""

    def make() -> list[dict]:
        return busy_trace(rng, streams=int(rng.integers(1, 3)), copies=rng.random() < 0.5, late=rng.random() < 0.5,
                          steps=int(rng.integers(2, 5)))

    return [_trace_case("a single step", busy_trace(rng, steps=1, streams=2)),
            _trace_case("five steps", busy_trace(rng, steps=5, late=True)),
            *(_trace_case(name, events) for name, events in _trapped(rng, make, without))]


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
        *_busy_cases(rng),
        _trace_case(REAL, real_step()),
    ]


def _efficiency_cases(rng: np.random.Generator) -> list[Case]:
    return [
        _trace_case("one stream", busy_trace(rng)),
        _trace_case("copies, and work after the last step", busy_trace(rng, copies=True, late=True)),
        _trace_case("three streams of kernels with few blocks", busy_trace(rng, streams=3, small=True)),
        _trace_case("two streams", busy_trace(rng, streams=2)),
        _trace_case("some kernels do not tell", busy_trace(rng, streams=2, silent=0.4)),
        _trace_case("no kernel tells", busy_trace(rng, silent=1.1)),
    ]


def efficiency_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    running = busy_trace(rng, running=True)
    return [*_efficiency_cases(rng), _trace_case("a kernel runs on from before the first step", running),
            _trace_case("a copy ends the last step", busy_trace(rng, ends_with_copy=True, streams=2)), *_busy_cases(rng),
            _trace_case(REAL, real_step())]


def occupancy_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    zero = [{**event, "args": {**event["args"], OCCUPANCY: 0}} if event["cat"] == "kernel" else event
            for event in busy_trace(rng)]
    # The text asks for the mean over all kernels; the tools leave out those before the first step.
    return [*_efficiency_cases(rng), *_busy_cases(rng, without=(early_work,)), _trace_case("every kernel tells 0", zero),
            _trace_case(REAL, real_step())]


def _launching(events: list[dict]) -> int:
    """How many operators' names launched something: among the others the order is nobody's business."""
    return sum(row.device_self_us > 0 for row in views.top_operators(Trace(events), None))


def operator_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, events: list[dict], k: int | None = None) -> Case:
        launching = _launching(events)
        return _trace_case(name, events, k=min(k or launching, launching))

    def make() -> list[dict]:
        return training_trace(rng, Traps(copies=True, own_thread_busy=rng.random() < 0.5), int(rng.integers(1, 3)))

    return [
        case("forward only", training_trace(rng, Traps(backward=False)), 3),
        case("forward and backward", training_trace(rng, Traps()), 6),
        case("with copies and memsets", training_trace(rng, Traps(copies=True, in_flight=True))),
        case("the main thread is busy while the backward thread launches",
             training_trace(rng, Traps(own_thread_busy=True, copies=True))),
        case("a labelled block launches something itself", training_trace(rng, Traps(outside=True))),
        *(case(name, events) for name, events in _trapped(rng, make)),
        case(REAL, real_step(), 8),
    ]


def memory_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def make() -> list[dict]:
        return training_trace(rng, Traps(outside=True), int(rng.integers(1, 3)))

    return [
        _trace_case("forward only", training_trace(rng, Traps(backward=False))),
        _trace_case("forward and backward", training_trace(rng)),
        _trace_case("frees outside operators, and the host's memory", training_trace(rng, Traps(outside=True))),
        _trace_case("the main thread is busy while the backward thread allocates",
                    training_trace(rng, Traps(own_thread_busy=True, outside=True))),
        *(_trace_case(name, events) for name, events in _trapped(rng, make)),
    ]


def source_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def make() -> list[dict]:
        return training_trace(rng, Traps(), 2)

    cases = []
    for name, traps, steps in (("forward only", Traps(backward=False), 3), ("forward and backward", Traps(), 2),
                               ("kernels launched before the recording", Traps(in_flight=True), 2),
                               ("a loader's thread", Traps(loader=True), 1),
                               ("a backward pass written in Python", Traps(python_backward=True), 2)):
        events = training_trace(rng, traps, steps)
        for kernel in _telling_kernels(events, BACKWARD if traps.backward else MAIN):
            cases.append(_trace_case(f"{name}: {kernel}", events, kernel_name=kernel))
    for name, events in _trapped(rng, make):
        names = [event["name"] for event in events if event.get("cat") == "kernel"]
        alike = [kernel for kernel in names if f"{kernel}_vectorized" in names]
        cases.append(_trace_case(name, events, kernel_name=(alike or _telling_kernels(events, BACKWARD)[-1:])[0]))
    return cases


def _telling_kernels(events: list[dict], thread: int) -> list[str]:
    """The kernel that several lines launch, that of a backward pass in Python, and the most frequent of ``thread``'s: those
    that there are."""
    threads = {event["args"]["correlation"]: event["tid"] for event in events
               if event.get("cat") in ("cuda_runtime", "cuda_driver")}
    launched = [(event["name"], threads.get(event["args"]["correlation"])) for event in events
                if event.get("cat") == "kernel"]
    often = Counter(sorted(kernel for kernel, where in launched if where == thread
                           and kernel not in ("shared_kernel", "empty_kernel", "next_kernel")))
    found = {kernel: None for kernel, _ in launched if kernel in ("shared_kernel", "own_backward_kernel")}
    return list(found | {often.most_common(1)[0][0]: None})


REAL = "one step of a real distributed training (CUDA)"
FULL_EARLY, MEMORY_ENDS = "the card is full early", "the memory ends before the gain does"
CARDS = ("t4", "v100", "a10g", "a100", "h100", "h200")


def batch_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def pick(*cards):
        return str(rng.choice(cards))

    def width(*widths):
        return int(rng.choice(widths))

    cases, wanted = [_batch_case(rng, EACH_RULE, *_table_of_rules(rng))], (
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
        cases.append(_batch_case(rng, f"{name} ({vgpu.CARDS[card].name})", table))
    return [*cases, *(_batch_case(rng, name, table) for name, table in _drawn_tables(rng).items())]


def _batch_case(rng: np.random.Generator, name: str, table: dict[int, dict | None], order: list[int] | None = None) -> Case:
    order = order or _order(rng, table)
    return Case(name, {}, {"candidates": order, "table": {str(batch): table[batch] for batch in order}})


EACH_RULE = "many batches"
STEADY, DIP, ONE_FITS, SLOW = ("each larger batch brings a "
                               "few per cent", "a batch between them is slow", "only one batch fits",
                               "steps of seconds")


def _table_of_rules(rng: np.random.Generator) -> tuple[dict[int, dict | None], list[int]]:
    """A table, and an order of its batches, for which each usual rule gives another batch."""
    # batch: (throughput as a share of the best, GPU utilisation)
    rows = {8: (0.30, 0.41), 12: (0.65, 0.62), 16: (0.80, 0.77), 18: (0.83, 0.9495), 20: (0.905, 0.93), 22: (0.93, 0.951),
            24: (0.957, 0.942), 32: (0.992, 0.955), 40: (0.975, 0.96), 44: (0.98, 0.999), 48: (1.0, 0.97), 52: (0.94, 0.965),
            56: (0.97, 0.952), 64: (0.96, 0.961), 80: (0.90, 0.958), 96: None}
    unit, speed = int(rng.integers(1, 5)), float(rng.uniform(0.5, 4))
    table = {unit * batch: None if row is None else {"step_ms": round(unit * batch / (speed * row[0]), 4),
                                                     "gpu_utilization": row[1]} for batch, row in rows.items()}
    first = [unit * batch for batch in (52, 56, 40, 96)]
    return table, first + [int(batch) for batch in rng.permutation([batch for batch in table if batch not in first])]


def _drawn_tables(rng: np.random.Generator) -> dict[str, dict[int, dict | None]]:
    """Tables that no modelled card gives. None is within 0.5 % of the limit."""

    def table(batches, speeds, none=()) -> dict[int, dict | None]:
        return {batch: None if batch in none else {"step_ms": round(batch / speed, 4),
                                                   "gpu_utilization": round(float(rng.uniform(0.6, 0.97)), 4)}
                for batch, speed in zip(batches, speeds)}

    gain = float(rng.uniform(1.02, 1.04))
    # Gains below the limit each, that add up; the best is the last but one.
    steady = [gain**step for step in range(7)] + [gain**5.5]
    dip = [1.0, 1.6, 2.0, 1.5, 2.4, 2.7, 2.68]
    while any(abs(speed / max(speeds) - ENOUGH) < 0.005 for speeds in (steady, dip) for speed in speeds):
        gain = float(rng.uniform(1.02, 1.04))
        steady = [gain**step for step in range(7)] + [gain**5.5]
    scale = float(rng.uniform(0.5, 3))
    return {
        STEADY: table((8, 16, 24, 32, 48, 64, 96, 128), [scale * speed for speed in steady]),
        DIP: table((8, 16, 24, 28, 32, 48, 64), [scale * speed for speed in dip]),
        ONE_FITS: table((4, 8, 16), (1.0, 1.0, 1.0), none=(8, 16)),
        SLOW: table((1, 2, 4, 8, 16), [speed / 1500 for speed in (1.0, 1.9, 3.1, 3.4, 3.45)], none=(16,)),
    }


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

    def make(*causes: str) -> list[dict]:
        cause = str(rng.choice(causes))
        events = idle_program(rng, cause, str(rng.choice(CARDS)), labelled=True, stacks=True, steps=int(rng.integers(1, 4)))
        # How full an SM is says nothing of how many have a block.
        low, high = (4, 14) if cause == SMALL_KERNELS else (55, 95)
        return [{**event, "args": {**event["args"], OCCUPANCY: int(rng.integers(low, high))}}
                if event.get("cat") == "kernel" else event for event in events]

    # A loader that is taken for something else, and the other way round. Whether work before the steps counts the text
    # leaves open.
    trapped = [*_trapped(rng, lambda: make(SLOW_LOADER), without=(early_work,)),
               *_trapped(rng, lambda: make(SMALL_BATCH, SMALL_KERNELS), without=(early_work,))]
    return cases + [_trace_case(name, events) for name, events in trapped]
