"""A real CUDA trace: two steps of one process of a distributed training, recorded by people at Meta. See README.md."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ....evidence.traces.trace import Trace

FILE = Path(__file__).parent / "ddp_rank0.json.gz"


def real_trace() -> Trace:
    """The whole file. It has no memory events and no stacks, and does not name its GPU."""
    return Trace.read(FILE)


@lru_cache(maxsize=1)
def _first_step() -> list[dict]:
    trace = real_trace()
    step = next(span for span in trace.spans if span.name.startswith("ProfilerStep#"))

    def on_host(event: dict) -> bool:
        return event.get("ph") == "X" and step.start_us <= event["ts"] < step.end_us

    calls = {event["args"]["correlation"] for event in trace.events if event.get("cat") == "cuda_runtime" and on_host(event)}
    work = ("kernel", "gpu_memcpy", "gpu_memset")
    return [event for event in trace.events if (event.get("cat") in work and event["args"].get("correlation") in calls)
            or (event.get("cat") in ("cpu_op", "cuda_runtime", "user_annotation") and on_host(event))]


def real_step() -> list[dict]:
    """The events of its first step: the host's within the step, and the GPU's that they launched."""
    return list(_first_step())
