"""Lesson 01: the inputs of ``source_of``."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ....course.evidence import Case
from ..cases import EARLIER, trace_case, trapped_cases
from ..disturbances import before_the_steps, host_steps
from ..traces import BACKWARD, GPU, LOADER, LOADER_LINE, MAIN, USER_LINES, Traps, training_trace


def source_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def make() -> list[dict]:
        return training_trace(rng, Traps(), 2)

    cases = []
    for name, traps, steps in (("forward only", Traps(backward=False), 3), ("forward and backward", Traps(), 2),
                               ("kernels launched before the recording", Traps(in_flight=True), 2),
                               ("a loader's thread", Traps(loader=True), 1),
                               ("a backward pass written in Python", Traps(python_backward=True), 2)):
        events = _beside_others(training_trace(rng, traps, steps))
        for kernel in _telling_kernels(events, BACKWARD if traps.backward else MAIN):
            cases.append(trace_case(f"{name}: {kernel}", events, kernel_name=kernel))
    for name, events in trapped_cases(rng, make):
        names = [event["name"] for event in events if event.get("cat") == "kernel"]
        alike = [kernel for kernel in names if f"{kernel}_vectorized" in names]
        cases.append(trace_case(name, events, kernel_name=(alike or _telling_kernels(events, BACKWARD)[-1:])[0]))
    nowhere = _beside_others(training_trace(rng, Traps(), 2))
    events = [*nowhere, *_at_no_line(nowhere)]
    earlier = before_the_steps(training_trace(rng, Traps(), 2), USER_LINES[0])
    return [*cases, trace_case("a kernel that is launched at no line: shared_kernel", events, kernel_name="shared_kernel"),
            trace_case(EARLIER, earlier, kernel_name=earlier[-1]["name"])]


def _beside_others(events: list[dict]) -> list[dict]:
    """The profiler repeats a step's block on the GPU's row. A loader's thread has the first call and the last block."""
    steps = host_steps(events)
    first = min(event["ts"] for event in events)
    last = max(event["ts"] + event["dur"] for event in events if "dur" in event)
    loader, repeated = {**steps[0], "tid": LOADER, "dur": 2.0}, {"cat": "gpu_user_annotation", "pid": GPU, "tid": 7}
    return [*events, *({**step, **repeated, "ts": step["ts"] + 1} for step in steps),
            {**loader, "name": "checkpoint", "ts": last + 1},
            {**loader, "cat": "cuda_runtime", "name": "cudaHostAlloc", "ts": first - 9, "args": {"correlation": 7}}]


def _at_no_line(events: list[dict]) -> list[dict]:
    """A launch after the last step, on the main thread, where only a loader's thread has a line."""
    at = max(event["ts"] + event["dur"] for event in events if "dur" in event) + 20
    kernel = next(event for event in events if event["cat"] == "kernel")
    step = next(event for event in events if event["cat"] == "user_annotation")
    host = {"ph": "X", "pid": step["pid"], "tid": MAIN, "args": {}}
    return [{**host, "cat": "cpu_op", "name": "aten::add", "ts": at, "dur": 9.0},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 2, "dur": 3.0,
             "args": {"correlation": 8}},
            {**host, "cat": "python_function", "name": LOADER_LINE, "tid": LOADER, "ts": at - 1, "dur": 15.0},
            {**kernel, "name": "shared_kernel", "ts": at + 8, "dur": 30.0, "args": {**kernel["args"], "correlation": 8}}]


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
