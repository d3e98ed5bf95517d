"""Record a step function: a trace of a few steps, and the time of many.

The two are measured apart. A profile shows what happened in which order and what waited for
what; a stopwatch around many steps, synchronised at both ends, shows how long a step takes. A profile
of a few steps cannot: the launch queue swallows about a thousand kernels, so an unblocked loop is profiled
at the host's pace.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch.profiler import record_function

from .. import vgpu
from ..evidence.traces.trace import Trace
from . import profiler
from .device import device as choose_device
from .device import device_name, synchronize
from .lines import LineRecorder
from .recorder import distributed_info


def _nothing(count: int) -> None:
    """Makes nothing ready."""


def profile(step: Callable[[], object], *, steps: int = 3, warmup: int = 2, device: torch.device | str | None = None,
            prepare: Callable[[int], object] = _nothing) -> Trace:
    """A trace of ``steps`` calls of ``step`` after ``warmup`` calls that are not recorded. ``prepare(count)`` makes as many
    calls ready, which is not recorded either: first those of the warm-up, and when these are done, the others.

    ``device``: a ``torch.device``, a name as for :func:`gapless.device`, or None for the course's device. The
    trace is in the PyTorch profiler's (Kineto) form: operators, runtime calls, kernels, copies,
    ``record_function`` blocks, a ``ProfilerStep#N`` block for each step, and the user's line for each
    operator. The device is idle when recording starts. Raises ValueError if ``steps`` < 1.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}: record at least one")
    device = _resolve(device)
    prepare(warmup)
    for _ in range(warmup):
        step()
    prepare(steps)
    synchronize(device)
    if device.type == "vgpu":
        return _profile(step, steps, device, nullcontext(), with_stack=True)
    lines = LineRecorder()
    trace = _profile(step, steps, device, lines, acc_events=True)
    return _with_lines(trace, lines)


def timed_profile(step: Callable[[], object], *, steps: int = 1, warmup: int = 0, device: torch.device,
                  prepare: Callable[[int], object] = _nothing) -> tuple[StepTime, Trace]:
    """The times of ``step`` and its trace, off the same calls: on the virtual GPU, where recording takes no time. ``steps``,
    ``warmup`` and ``prepare`` as for :func:`profile`."""
    times_ns: list[tuple[int, int, int]] = []

    def timed():
        begun = _virtual_now_ns()
        step()
        times_ns.append((begun, _virtual_now_ns(), vgpu.timeline().device_ready_ns))

    trace = profile(timed, steps=steps, warmup=warmup, device=device, prepare=prepare)
    (begun, returned, _), (_, ended, done) = times_ns[-steps], times_ns[-1]
    true_ms = (max(ended, done) - begun) / 1e6 / steps
    return StepTime((returned - begun) / 1e6, true_ms, (true_ms,), True, device_name(device)), trace


def _resolve(device) -> torch.device:
    return device if isinstance(device, torch.device) else choose_device(device)


def _with_lines(trace: Trace, lines: LineRecorder) -> Trace:
    return Trace(lines.added_to(trace.events), {"distributedInfo": distributed_info(), **trace.metadata})


def _profile(step, steps: int, device: torch.device, lines: LineRecorder | nullcontext, **options) -> Trace:
    # One cycle. acc_events: without it PyTorch warns on stderr that other cycles' events would be dropped. On the virtual
    # GPU only the step itself takes time.
    with profiler.profile(device=device, profile_memory=True, **options) as recorded, vgpu.host_clock.uncounted() as mark:
        with lines:
            for number in range(steps):
                with record_function(f"ProfilerStep#{number}"), mark.but_for():
                    step()
        if device.type != "vgpu":
            synchronize(device)
    return recorded.trace


class LinedProfile:
    """A profile with the user's lines, from :meth:`start` to :meth:`stop`, which may be called in different functions."""

    def __init__(self, device: torch.device):
        simulated = device.type == "vgpu"
        self._recorded = profiler.profile(device=device, profile_memory=True,
                                          **({"with_stack": True} if simulated else {"acc_events": True}))
        self._lines = None if simulated else LineRecorder()
        self._running = False

    def start(self) -> None:
        """Record from now on. Raises RuntimeError where another profile is being recorded."""
        self._recorded.start()
        self._running = True
        if self._lines is not None:
            self._lines.start()

    def stop(self) -> Trace:
        """Record no more; the trace."""
        self.abandon()
        trace = self._recorded.trace
        return trace if self._lines is None else _with_lines(trace, self._lines)

    def abandon(self) -> None:
        """Record no more, if it does."""
        if self._running:
            self._running = False
            if self._lines is not None:
                self._lines.stop()
            self._recorded.stop()


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
              device: torch.device | str | None = None, at_once: bool = False,
              prepare: Callable[[int], object] = _nothing) -> StepTime:
    """Time ``step`` without a profiler: ``blocks`` blocks of ``steps`` calls, synchronised at both ends.

    On the virtual GPU the clock is exact and one block is enough. Elsewhere a block of long steps has about as many of them
    as a second holds, by the fastest call of the warm-up after the first. ``at_once``: a block is one call, and both its
    times are read off that, for a step that takes long. ``prepare(count)`` makes as many calls ready while no time is taken:
    each time those that follow, up to where it is called again. Raises ValueError if ``steps`` or ``blocks`` < 1.
    """
    if steps < 1 or blocks < 1:
        raise ValueError("steps and blocks must be at least 1")
    device = _resolve(device)
    simulated = device.type == "vgpu"
    prepare(warmup)
    if simulated:
        for _ in range(warmup):
            step()
    elif warm_ms := [_clock_ms(device, step, 1, wait=True) for _ in range(warmup)][1:]:  # the first may compile
        steps = max(1, min(steps, round(1000 / max(min(warm_ms), 1.0))))
    samples, host = [], []
    for _ in range(1 if simulated else blocks):
        prepare(1)
        synchronize(device)
        if at_once:
            for times, ms in zip((host, samples), _both_ms(device, step)):
                times.append(ms)
            continue
        host.append(_clock_ms(device, step, 1, wait=False))
        prepare(steps)
        synchronize(device)
        samples.append(_clock_ms(device, step, steps, wait=True) / steps)
    return StepTime(statistics.median(host), statistics.median(samples), tuple(samples), simulated,
                    device_name(device))


def _both_ms(device: torch.device, step) -> tuple[float, float]:
    """Until ``step()`` returns, and until the device is done."""
    now = time.perf_counter_ns if device.type != "vgpu" else _virtual_now_ns
    with vgpu.host_clock.counting() if device.type == "vgpu" else nullcontext():
        start = now()
        step()
        returned = now()
        synchronize(device)
        return (returned - start) / 1e6, (now() - start) / 1e6


def _clock_ms(device: torch.device, step, count: int, wait: bool) -> float:
    # Whole nanoseconds, so that a simulated time does not depend on when it began.
    now = time.perf_counter_ns if device.type != "vgpu" else _virtual_now_ns
    with vgpu.host_clock.counting() if device.type == "vgpu" else nullcontext():
        start = now()
        for _ in range(count):
            step()
        if wait:
            synchronize(device)
        return (now() - start) / 1e6


def _virtual_now_ns() -> int:
    vgpu.timeline().catch_up()
    return vgpu.timeline().host_ns
