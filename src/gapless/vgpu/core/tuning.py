"""Which plan a convolution runs by: the heuristic's choice; with ``torch.backends.cudnn.benchmark`` the fastest of trials.

As PyTorch does it (ATen, ``cudnn/Conv_v8.cpp``): the plan of a problem is kept, under its sizes, dtype, memory format,
direction and whether it must be deterministic; only a new problem is asked about. Without ``benchmark`` its first plan runs
that gets its workspace. With it all run whose workspace fits, at most ``torch.backends.cudnn.benchmark_limit`` (0: all): the
host waits for the device, then for each plan it launches a first run, waits for the device, launches a timed one and waits
for the event behind it (cudnn-frontend, ``time_sorted_plan`` with ``CUDNN_FIND_SAMPLE_ONCE``). So:

- a new size of images tunes every layer again;
- **a plan that was chosen stays**: to switch ``benchmark`` on after a shape has run changes nothing for that shape.

Not as there: PyTorch keeps the plans by thread and by the alignment of addresses, and drops the oldest of more than 10,000.
What the host takes to make a plan is not counted: nothing published says how long. All modelled plans are deterministic, so
that this switch only makes another problem. With ``torch.backends.cudnn.enabled = False`` CUDA has kernels of ATen's, which
are not modelled.
"""

# mypy: disable-error-code="arg-type"
# A problem is a convolution's or one of its passes, and a size is no symbol: a test comes before.
from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from ..hardware.kernels.costs import Kernel
from ..hardware.times import precision
from ..hardware.times.plans import Plan, without_workspace
from ..hardware.times.plans import plans as plans_for
from ..process.state import state

_benchmark = torch._C._get_cudnn_benchmark
_deterministic, _all_deterministic = torch._C._get_cudnn_deterministic, torch._C._get_deterministic_algorithms

DEFAULT_LIMIT = 10  # PyTorch's; what a PyTorch without CUDA does not know

Launch = Callable[[list[Kernel], tuple, object], None]


class Chosen(NamedTuple):
    """What a kernel keeps of its ``plan``: the plans that it is one of, whether it is deterministic, its kernels."""

    plans: dict
    deterministic: bool
    plan: Plan
    kernels: list[Kernel]


def _benchmark_limit() -> int:
    """At least 0, which is none."""
    limit = torch.backends.cudnn.benchmark_limit
    return DEFAULT_LIMIT if limit is None else max(limit, 0)


def switches() -> tuple[bool, int, bool]:
    """``benchmark``, ``benchmark_limit`` where it counts, and whether only deterministic plans may be taken."""
    benchmark = _benchmark()
    return benchmark, _benchmark_limit() if benchmark else DEFAULT_LIMIT, _deterministic() or _all_deterministic()


def switch(benchmark: bool, limit: int, deterministic: bool) -> None:
    """Set what :func:`switches` gives."""
    cudnn = torch.backends.cudnn
    cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic = benchmark, limit, deterministic


@contextmanager
def autotuned() -> Iterator[None]:
    """Inside ``torch.backends.cudnn.benchmark`` is on, on any device."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def forget() -> None:
    """As in a process that has not run a convolution yet: what comes next is chosen, or tuned, again."""
    state.plans = {}


def chosen(kernel: Kernel, launch: Launch, args: tuple, out) -> list[Kernel]:
    """What runs in place of ``kernel``, a pass of a convolution with these ``args`` and this result; ``launch`` runs trials.
    Raises OutOfMemory where not even the operands that were converted for it have room."""
    plans, deterministic = state.plans, _deterministic() or _all_deterministic()
    known = kernel.chosen
    if known is None or known.plans is not plans or known.deterministic is not deterministic:
        known = _kept(kernel, plans, deterministic, (launch, args, out))
    needed = kernel.workspace_bytes + known.plan.workspace_bytes
    if needed:
        if known.plan.workspace_bytes and not _fits(needed):  # its memory is taken by now
            known = _kept(kernel, plans, deterministic, (launch, args, out), anew=True)
            needed = kernel.workspace_bytes + known.plan.workspace_bytes
        state.memory.reserve_briefly(needed)
    return known.kernels


def _kept(kernel: Kernel, plans: dict, deterministic: bool, trial: tuple, anew: bool = False) -> Chosen:
    key = kernel.problem, kernel.dtype, deterministic
    plan = None if anew else plans.get(key)
    if plan is None:
        plan = plans[key] = _tuned(kernel, *trial) if precision.tunes(_benchmark()) else _possible(kernel)[0]
    kernel.chosen = Chosen(plans, deterministic, plan, _kernels(kernel, plan))
    return kernel.chosen


def _fits(nbytes: int) -> bool:
    # What cuDNN's plans are given: ATen/native/cudnn/Conv_v8.cpp, ``get_available_workspace``.
    return nbytes <= state.memory.largest_free_bytes


def _possible(kernel: Kernel) -> list[Plan]:
    """The plans whose workspace fits; one that needs none where there is no other."""
    cap = os.environ.get("CUDNN_CONV_WSCAP_DBG", "")  # cuDNN's own, in MiB
    most = int(cap) * 2**20 if cap.isdecimal() else math.inf
    found = [plan for plan in plans_for(kernel.problem, state.card, kernel.dtype)
             if plan.workspace_bytes <= most and _fits(kernel.workspace_bytes + plan.workspace_bytes)]
    return found or [without_workspace(kernel.problem, state.card, kernel.dtype)]


def _tuned(kernel: Kernel, launch: Launch, args: tuple, out) -> Plan:
    found = _possible(kernel)
    workspace = kernel.workspace_bytes + max(plan.workspace_bytes for plan in found)  # of those beyond the limit too
    found = found[:precision.tries(_benchmark_limit(), DEFAULT_LIMIT) or None]
    timeline = state.timeline
    timeline.synchronize_device()
    for plan in found:
        kernels = _kernels(kernel, plan)
        if workspace:
            state.memory.reserve_briefly(workspace)
        launch(kernels, args, out)
        timeline.synchronize_device()
        launch(kernels, args, out)
        timeline.synchronize_event(timeline.record_event())
    return min(found, key=lambda plan: plan.seconds)


def _kernels(kernel: Kernel, plan: Plan) -> list[Kernel]:
    found, name = [], kernel.name.removesuffix(kernel.dtype) + plan.dtype
    for part in plan.parts:
        if part.turns:
            one = Kernel(f"{part.name}<{plan.dtype}>", "pointwise", 2 * part.turns, problem=part)
        else:
            one = Kernel(f"{name}({part.name})", "convolution", kernel.bytes, kernel.flops, plan.dtype, work=kernel.work,
                         problem=part)
        found.append(one)
    return found


