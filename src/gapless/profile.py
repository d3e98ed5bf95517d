"""Record a step function: a trace of a few steps, and the time of many.

The two are measured apart. A profile shows what happened in which order and what waited for
what; a stopwatch around many steps, synchronised at both ends, shows how long a step takes. A profile
of a few steps cannot: the launch queue swallows about a thousand kernels, so an unblocked loop is profiled
at the host's pace.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from . import vgpu
from .device import device as choose_device
from .device import device_name, synchronize
from .trace import Trace
from .vgpu import kineto
from .vgpu.location import location


def profile(step: Callable[[], object], *, steps: int = 3, warmup: int = 2, device: torch.device | str | None = None
            ) -> Trace:
    """A trace of ``steps`` calls of ``step`` after ``warmup`` calls that are not recorded.

    ``device``: a ``torch.device``, a name as for :func:`gapless.device`, or None for the course's device. The
    trace is in the PyTorch profiler's (Kineto) form: operators, runtime calls, kernels, copies,
    ``record_function`` blocks, a ``ProfilerStep#N`` block for each step, and the user's line for each
    operator. The device is idle when recording starts. Raises ValueError if ``steps`` < 1.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}: record at least one")
    device = _resolve(device)
    for _ in range(warmup):
        step()
    synchronize(device)
    if device.type == "vgpu":
        return _profile_vgpu(step, steps)
    return _profile_torch(step, steps, device)


def _resolve(device) -> torch.device:
    return device if isinstance(device, torch.device) else choose_device(device)


# -- the virtual GPU ------------------------------------------------------------------------------


class _Annotations:
    """While active, ``torch.profiler.record_function`` blocks are put on the virtual timeline."""

    def __init__(self, timeline: vgpu.Timeline):
        self.timeline = timeline

    def __enter__(self):
        cls = torch.autograd.profiler.record_function
        self.original = cls.__enter__, cls.__exit__
        enter, leave = self.original
        timeline = self.timeline

        def __enter__(block):
            block._vgpu_start_ns = timeline.host_ns
            return enter(block)

        def __exit__(block, *error):
            timeline.annotate(block.name, block._vgpu_start_ns)
            return leave(block, *error)

        cls.__enter__, cls.__exit__ = __enter__, __exit__

    def __exit__(self, *error):
        cls = torch.autograd.profiler.record_function
        cls.__enter__, cls.__exit__ = self.original


def _profile_vgpu(step, steps: int) -> Trace:
    timeline, memory = vgpu.timeline(), vgpu.memory()
    if timeline.recording is not None:
        raise RuntimeError("a profile is being recorded already: profiles do not nest")
    recording, locate = vgpu.Recording(), timeline.locate
    timeline.recording = recording

    addresses: dict[int, int] = {}  # numbered as they come, so that the same program leaves the same trace

    def changed(nbytes: int, address: int) -> None:
        if not nbytes:
            return  # readers take a change of 0 bytes for a second release
        # An operator's results are made when its time is over: a moment earlier they are inside it, and its own.
        now_ns = timeline.host_ns - 1 if timeline.in_operator else timeline.host_ns
        recording.records.append(
            vgpu.Record("memory", "[memory]", now_ns, 0, "host",
                        {"Device Type": 1, "Device Id": 0, "Addr": addresses.setdefault(address, len(addresses)),
                         "Bytes": nbytes, "Total Allocated": memory.allocated_bytes,
                         # The cache of freed blocks is not modelled.
                         "Total Reserved": memory.allocated_bytes}))

    memory.on_change = changed
    try:
        with _Annotations(timeline):
            for number in range(steps):
                start_ns = timeline.host_ns
                step()
                timeline.annotate(f"ProfilerStep#{number}", start_ns)
        timeline.host_work(2_000)  # the closing wait belongs to no step, and to no line of the user's
        timeline.locate = lambda: None
        timeline.synchronize_device()
    finally:
        timeline.locate = locate
        timeline.recording = memory.on_change = None
    metadata = {
        "schemaVersion": 1,
        "distributedInfo": _distributed_info(),
        "deviceProperties": kineto.device_properties(vgpu.card()),
        "gapless": {"simulated": True, "card": vgpu.card().key},
    }
    return Trace(kineto.trace_events(recording, vgpu.card()), metadata)


def _distributed_info() -> dict:
    """What PyTorch's profiler says of the process group; rank 0 where there is none, since tools file traces by rank."""
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        return {"backend": group.get_backend(), "rank": group.get_rank(), "world_size": group.get_world_size()}
    return {"rank": 0}


# -- a real device --------------------------------------------------------------------------------

_LINE = "gapless line: "


class _MarkLines(torch.overrides.TorchFunctionMode):
    """Mark each call into PyTorch with the user's line: the profiler's own stacks give functions, not lines."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        with torch.autograd.profiler.record_function(f"{_LINE}{location()}"):
            return func(*args, **(kwargs or {}))


def _profile_torch(step, steps: int, device: torch.device) -> Trace:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    # acc_events: there is one cycle; without it PyTorch warns on stderr that others would be dropped.
    with torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        for number in range(steps):
            with torch.autograd.profiler.record_function(f"ProfilerStep#{number}"), _MarkLines():
                step()
        synchronize(device)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        trace = Trace.read(path)
    return Trace(_lines_as_stacks(trace.events), {"distributedInfo": _distributed_info(), **trace.metadata})


def _lines_as_stacks(events: list[dict]) -> list[dict]:
    """Our line marks become ``python_function`` events; their mirrors on the device's rows go."""
    kept = []
    for event in events:
        name = str(event.get("name", ""))
        if name.startswith(_LINE):
            if event.get("cat") != "user_annotation":
                continue
            event = {**event, "cat": "python_function", "name": name.removeprefix(_LINE)}
        kept.append(event)
    return kept


# -- the stopwatch --------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepTime:
    """Times of a step. ``host_ms``: until the call returns, on an idle device; ``true_ms``: the step's share of
    a long run. ``samples_ms``: the true times behind the median, one a block. Exact when ``simulated``."""

    host_ms: float
    true_ms: float
    samples_ms: tuple[float, ...]
    simulated: bool
    device_name: str


def time_step(step: Callable[[], object], *, warmup: int = 3, steps: int = 20, blocks: int = 5,
              device: torch.device | str | None = None) -> StepTime:
    """Time ``step`` without a profiler: ``blocks`` blocks of ``steps`` calls, synchronised at both ends.

    On the virtual GPU the clock is exact and one block is enough. Raises ValueError if
    ``steps`` or ``blocks`` < 1.
    """
    if steps < 1 or blocks < 1:
        raise ValueError("steps and blocks must be at least 1")
    device = _resolve(device)
    simulated = device.type == "vgpu"
    for _ in range(warmup):
        step()
    samples, host = [], []
    for _ in range(1 if simulated else blocks):
        synchronize(device)
        host.append(_clock_ms(device, step, 1, wait=False))
        synchronize(device)
        samples.append(_clock_ms(device, step, steps, wait=True) / steps)
    return StepTime(statistics.median(host), statistics.median(samples), tuple(samples), simulated,
                    device_name(device) if device.type != "cpu" else "CPU")


def _clock_ms(device: torch.device, step, count: int, wait: bool) -> float:
    # Whole nanoseconds, so that a simulated time does not depend on when it began.
    now = time.perf_counter_ns if device.type != "vgpu" else _virtual_now_ns
    start = now()
    for _ in range(count):
        step()
    if wait:
        synchronize(device)
    return (now() - start) / 1e6


def _virtual_now_ns() -> int:
    return vgpu.timeline().host_ns
