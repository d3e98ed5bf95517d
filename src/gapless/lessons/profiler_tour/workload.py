"""Lesson 01's programs: a training step of ResNet-50, its traces, and three programs that leave the GPU idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from ... import vgpu
from ...course.exercise import full_size
from ...evidence import views
from ...evidence.traces.trace import Trace
from ...measure import profiler
from ...measure.device import device as choose_device
from ...measure.device import host_work
from ...measure.profile import time_step
from ...measure.profiler import record_function
from ...measure.several_gpus import hide_real_gpus
from .stage import Measured

BATCHES = (4, 32)
TRACE_CARD = "h100"  # fast beside its host, so that a small batch leaves it idle


def training_step(batch_size: int, device: torch.device) -> Callable[[], None]:
    """A training step of ResNet-50 on ``batch_size`` images of 3×224×224, float32, SGD with momentum; one pinned batch is
    copied to the device each step. Needs torchvision. On the virtual GPU call it inside ``full_size(device, …)``."""
    from torchvision.models import resnet50

    network = resnet50().to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)
    images = torch.zeros(batch_size, 3, 224, 224).pin_memory()
    labels = torch.zeros(batch_size, dtype=torch.int64).pin_memory()

    def step():
        with record_function("copy the batch"):
            x, target = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with record_function("forward"):
            loss = F.cross_entropy(network(x), target)
        optimizer.zero_grad()
        with record_function("backward"):
            loss.backward()
        optimizer.step()

    return step


def record(step: Callable[[], object], device: torch.device, steps: int = 3) -> Trace:
    """A trace of ``steps`` steps after one that is left out and one to warm up, with shapes, memory and stacks."""
    with profiler.profile(schedule=profiler.schedule(wait=1, warmup=1, active=steps, repeat=1), record_shapes=True,
                          profile_memory=True, with_stack=True, device=device) as prof:
        for _ in range(2 + steps):
            step()
            prof.step()
    return prof.trace


@contextmanager
def simulated(card: str) -> Iterator[torch.device]:
    """Inside, the virtual GPU models ``card``, and tensors made have no values; afterwards the card is as before."""
    before = vgpu.card()
    device = choose_device(f"vgpu:{card}")
    try:
        vgpu.timeline().reset()
        with full_size(device):
            yield device
    finally:
        vgpu.enable(before)


def trace_at(batch_size: int, card: str = TRACE_CARD) -> Trace:
    """The trace of three training steps with this batch on a simulated card. Where there is a real GPU, another process
    simulates: PyTorch takes one device of a process for the accelerator."""
    if torch.cuda.is_available():
        with ProcessPoolExecutor(1, get_context("spawn"), hide_real_gpus) as pool:
            return pool.submit(trace_at, batch_size, card).result()
    with simulated(card) as device:
        return record(training_step(batch_size, device), device)


def write_traces(folder: str | Path, card: str = TRACE_CARD) -> dict[str, Path]:
    """Write the traces of three training steps at batch 4 and at batch 32 into ``folder``: "batch 4", "batch 32" → file.

    Simulated on ``card``, whatever the course's device: the same bytes everywhere for the same versions of PyTorch and
    torchvision. With shapes, memory and stacks.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for batch_size in BATCHES:
        files[f"batch {batch_size}"] = folder / f"resnet50_batch_{batch_size}.json.gz"
        trace_at(batch_size, card).write(files[f"batch {batch_size}"])
    return files


def measure_on(device: torch.device) -> Callable[[int], Measured]:
    """What ``choose_batch_size`` is given, for ResNet-50 on ``device``."""

    def measure(batch_size: int) -> Measured:
        with full_size(device):
            step = training_step(batch_size, device)
            took = time_step(step, device=device, warmup=1, steps=4, blocks=3)
            return Measured(took.true_ms, views.gpu_utilization(record(step, device)))

    return measure


def _small_batch(device: torch.device):
    network = nn.Sequential(*(layer for _ in range(24) for layer in (nn.Linear(512, 512), nn.ReLU()))).to(device)
    rows = torch.zeros(8, 512).pin_memory()

    def step():
        with torch.no_grad():
            return network(rows.to(device, non_blocking=True))

    return step


def _many_small_kernels(device: torch.device):
    signal = torch.zeros(256, 1024, device=device)

    def step():
        x = signal
        for _ in range(16):  # a GELU, written out
            x = 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))
        return x

    return step


class _Decoded(torch.utils.data.Dataset):
    """Images that take the host 1.5 ms each to read."""

    def __init__(self, device: torch.device):
        self.device = device

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        host_work(1.5, self.device)
        return torch.zeros(3, 128, 128)


def _slow_loader(device: torch.device):
    network = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3)).to(device)
    batches = iter(torch.utils.data.DataLoader(_Decoded(device), batch_size=16))

    def step():
        network(next(batches).to(device)).mean().backward()

    return step


_PUZZLES = {1: _many_small_kernels, 2: _slow_loader, 3: _small_batch}


def puzzle(number: int, device: torch.device) -> Callable[[], object]:
    """The step of program 1, 2 or 3: each leaves the GPU idle for another reason."""
    return _PUZZLES[number](device)


def share_table(traces: dict[str, Trace], measures: dict[str, Callable]) -> str:
    """What the functions in ``measures`` (name → function of a trace) give for each trace, in per cent, as text."""
    width = max(map(len, traces))
    lines = [" " * width + "".join(f"{name:>22}" for name in measures)]
    for label, trace in traces.items():
        shares = [measure(trace) for measure in measures.values()]
        texts = ["—" if share is None else f"{100 * share:.1f} %" for share in shares]
        lines.append(f"{label:{width}}" + "".join(f"{text:>22}" for text in texts))
    return "\n".join(lines)
