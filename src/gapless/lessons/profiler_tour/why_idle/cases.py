"""Lesson 01: the inputs of ``why_idle``."""

from __future__ import annotations

import itertools

import numpy as np

from .... import vgpu
from ....course.evidence import Case
from ..cases import CARDS, trace_case, trapped_cases
from ..disturbances import BLOCKS, OCCUPANCY, early_work, graphs, host_steps, largest_correlation, thread_without_operators
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS, idle_program


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
        cases.append(trace_case(f"program {number} on a {vgpu.CARDS[card].name}", events))

    steps = itertools.cycle((5, 1, 3))

    def make(*causes: str) -> list[dict]:
        cause = str(rng.choice(causes))
        count = next(steps)
        events = idle_program(rng, cause, str(rng.choice(CARDS)), labelled=True, stacks=True, small=True, load=(2.6, 3.2),
                              steps=count, ready=int(rng.choice([1, count])) if count > 1 else None)
        # How full an SM is says nothing of how many have a block.
        low, high = (4, 14) if cause == SMALL_KERNELS else (55, 95)
        events = [{**event, "args": {**event["args"], OCCUPANCY: int(rng.integers(low, high))}}
                  if event.get("cat") == "kernel" else event for event in events]
        # A profiler's clock does not begin with the program.
        return [{**event, "ts": event["ts"] + 1e6} for event in _with_crumbs(events, filling=cause == SMALL_BATCH)]

    left_open = early_work, thread_without_operators, graphs
    # A loader that is taken for something else, and the other way round. Whether work before the steps counts, or
    # another thread's, and how kernels at the same time fill the card, the text leaves open.
    trapped = [*trapped_cases(rng, lambda: make(SLOW_LOADER), without=left_open),
               *trapped_cases(rng, lambda: make(SMALL_BATCH, SMALL_KERNELS), without=left_open)]
    # Where a single step, or most of them, say something else than all together.
    found = []
    for name, cause, options in (
            ("one step waits for its batch, and the others do not", SMALL_KERNELS,
             {"steps": 10, "fetching": _drawn(rng, 1, *[0] * 9)}),
            ("most steps have their batch soon, and the others wait long", SLOW_LOADER,
             {"steps": 5, "small": True, "fetching": _drawn(rng, 0.2, 5, 0.2, 5, 0.2)}),
            ("the first step fills a small part of the card", SMALL_KERNELS, {"steps": 4, "partly": 1}),
            ("the last step fills a small part of the card", SMALL_KERNELS, {"steps": 4, "partly": 4})):
        found.append((name, idle_program(rng, cause, str(rng.choice(CARDS)), **options)))
    for name, cause, change in (("every launch is the driver's", SMALL_BATCH, _by_the_driver),
                                ("a second thread launches most of a step", SMALL_KERNELS, _by_a_second_thread),
                                ("a launch before the slow loader", SLOW_LOADER, _with_an_early_launch)):
        found.append((name, change(idle_program(rng, cause, str(rng.choice(CARDS))))))
    # Early among them, where it still decides which mistake it is.
    late = "a clock that began long before", _with_short_calls(idle_program(rng, SMALL_KERNELS, str(rng.choice(CARDS))))
    return cases + [trace_case(name, events) for name, events in [late, *trapped, *found]]


def _drawn(rng: np.random.Generator, *numbers: float) -> list[float]:
    return [float(number) for number in rng.permutation(numbers)]


def _by_the_driver(events: list[dict]) -> list[dict]:
    return [{**event, "name": "cuLaunchKernel", "cat": "cuda_driver"} if event["name"] == "cudaLaunchKernel" else event
            for event in events]


def _with_short_calls(events: list[dict]) -> list[dict]:
    """Much later, and each call is over well before its operator."""
    return [{**event, "ts": event["ts"] + 1e6, "dur": event["dur"] / (2 if event["cat"] == "cuda_runtime" else 1)}
            if "dur" in event else {**event, "ts": event["ts"] + 1e6} for event in events]


def _by_a_second_thread(events: list[dict]) -> list[dict]:
    """All operators and calls but those of each step's first third are on a thread of their own, as a backward pass's."""
    late = [(step["ts"] + step["dur"] / 3, step["ts"] + step["dur"]) for step in host_steps(events)]
    return [{**event, "tid": 2} if event.get("cat") in ("cpu_op", "cuda_runtime")
            and any(since <= event["ts"] < until for since, until in late) else event for event in events]


def _with_an_early_launch(events: list[dict]) -> list[dict]:
    """Each step begins with a short operator that launches a short kernel, as ``zero_grad`` does."""
    found, first = [], 1 + largest_correlation(events)
    kernel = next(event for event in events if event.get("cat") == "kernel")
    for number, step in enumerate(host_steps(events), start=first):
        at, place = step["ts"] + 0.5, {"ph": "X", "pid": step["pid"], "tid": step["tid"]}
        found += [{**place, "cat": "cpu_op", "name": "aten::zero_", "ts": at, "dur": 4.0, "args": {}},
                  {**place, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 1, "dur": 2.0,
                   "args": {"correlation": number}},
                  {**kernel, "ts": at + 5, "dur": 1.0, "args": {**kernel["args"], "correlation": number}}]
    return [*events, *found]


def _with_crumbs(events: list[dict], filling: bool) -> list[dict]:
    """Beside each kernel some of a hundredth of its length that fill the card many times over, or leave it empty: they are
    many, and take no time. The longest kernel is like them, and is one of many."""
    kernels = [event for event in events if event.get("cat") == "kernel"]
    longest, blocks, found = max(kernels, key=lambda event: event["dur"]), 400.0 if filling else 0.02, []
    events = [{**event, "dur": 1.01 * event["dur"], "args": {**event["args"], BLOCKS: blocks}} if event is longest else event
              for event in events]
    for event in events:
        if event.get("cat") == "kernel":
            crumb = {**event, "name": "crumb", "dur": 0.01 * event["dur"], "args": {**event["args"], BLOCKS: blocks}}
            found += [{**crumb, "ts": event["ts"] + 0.2 * place * event["dur"]} for place in range(1, 5)]
    return [*events, *found]
