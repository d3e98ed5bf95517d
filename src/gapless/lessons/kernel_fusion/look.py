"""Lesson 07: what the notebook measures around the exercises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch

from ... import vgpu
from ...course.exercise import full_size
from ...evidence.report import StepReport
from ...measure.device import clock_ms, synchronize
from ...measure.memory_profile import memory_profile
from ...measure.profile import profile, time_step

ELEMENTS = 2**20  # of the talk's example: about a million
_BYTES = 4 * ELEMENTS
# GELU as handed out, kernel by kernel: what each reads, and what it writes.
GELU_KERNELS = [
    ({"x": _BYTES}, {"half": _BYTES}),
    ({"x": _BYTES}, {"scaled": _BYTES}),
    ({"scaled": _BYTES}, {"erf": _BYTES}),
    ({"erf": _BYTES}, {"one more": _BYTES}),
    ({"half": _BYTES, "one more": _BYTES}, {"y": _BYTES}),
]


def call_us(function: Callable, device: torch.device) -> tuple[float, float]:
    """``function`` on a million numbers, in microseconds, without gradients: (how long the device works on a call, how long
    a call takes among many, in which the host may be the slower)."""
    x = torch.randn(ELEMENTS, device=device)
    with torch.no_grad():
        true_ms = time_step(lambda: function(x), device=device).true_ms
        report = StepReport.from_trace(profile(lambda: function(x), device=device))
    return 1000 * report.device_busy_ms, 1000 * true_ms


def calls_ms(function: Callable, device: torch.device, calls: int = 5) -> list[float]:
    """How long each of so many calls of ``function`` on a million numbers takes, the device waited for."""
    x, times = torch.randn(ELEMENTS, device=device), []
    with vgpu.host_clock.counting() if device.type == "vgpu" else nullcontext():
        for _ in range(calls):
            synchronize(device)
            start_ms = clock_ms(device)
            function(x)
            synchronize(device)
            times.append(clock_ms(device) - start_ms)
    return times


def swish_memory(swish: Callable, device: torch.device, layers: int = 6):
    """The memory of a forward and backward pass through so many layers of four million numbers."""
    with full_size(device):
        x = torch.randn(4 * ELEMENTS, device=device, requires_grad=True)

        def step():
            y = x
            for _ in range(layers):
                y = swish(y)
            y.sum().backward()
            x.grad = None

        return memory_profile(step, device=device)
