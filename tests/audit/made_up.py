"""An audit of a step on the virtual GPU, without a process of its own."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import record_function

import gapless
from gapless.audit.result import Audit
from gapless.evidence.what_if import LOADER, OPTIMIZER_MARK
from gapless.measure.device import host_work

FACTS = {"kind": "optimizer.step()", "torch": "2.14.1", "warm_up": 2}


def training(*, reads=0, input_ms=0.0, size=64, host_ms=0.0, foreach=True, layers=2,
             dtype=torch.float32):
    """A training step on ``vgpu:0``: ``reads`` numbers are read, a batch takes ``input_ms`` of the host."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(size, size) for _ in range(layers)]).to("vgpu:0", dtype)
    optimizer = torch.optim.Adam(model.parameters(), foreach=foreach)
    x = torch.randn(size, size, device="vgpu:0", dtype=dtype)

    def step():
        with record_function(f"{LOADER}_SingleProcessDataLoaderIter.__next__"):
            host_work(input_ms)
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        for _ in range(reads):
            loss.item()
        host_work(host_ms)
        with record_function(OPTIMIZER_MARK):
            optimizer.step()

    return step


def made(step, memory=False, **facts) -> Audit:
    """The audit of it, on the A10G."""
    trace = gapless.profile(step, steps=3, device="vgpu:0")
    kept = gapless.memory_profile(step, device="vgpu:0") if memory else None
    return Audit.of("train.py", trace, FACTS | facts, kept)
