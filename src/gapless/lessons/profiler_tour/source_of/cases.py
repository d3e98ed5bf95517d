"""Lesson 01: the inputs of ``source_of``."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ....course.evidence import Case
from ..cases import trace_case, trapped_cases
from ..traces import BACKWARD, MAIN, Traps, training_trace


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
            cases.append(trace_case(f"{name}: {kernel}", events, kernel_name=kernel))
    for name, events in trapped_cases(rng, make):
        names = [event["name"] for event in events if event.get("cat") == "kernel"]
        alike = [kernel for kernel in names if f"{kernel}_vectorized" in names]
        cases.append(trace_case(name, events, kernel_name=(alike or _telling_kernels(events, BACKWARD)[-1:])[0]))
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
