"""Small traces for lesson 01's checks: made by chance with known traps, or run on the clocks of a modelled card.

Neither needs a GPU or PyTorch's device: the first kind is written event by event, the second drives a timeline of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from .... import vgpu
from ....evidence.traces.trace import Trace
from ....vgpu.hardware.kernels.costs import Kernel
from ..traces import Program


@dataclass(frozen=True)
class Network:
    """A stack of layers, for steps at any batch size. ``rows`` of each sample go through ``layers`` products of
    ``width`` × ``width``; ``fixed_ms``: one kernel of a single block that takes that long whatever the batch;
    ``sample_bytes``: memory for each sample."""

    layers: int
    width: int
    rows: int
    sample_bytes: int
    fixed_ms: float = 0.0


IMAGE_BYTES = 3 * 224 * 224
STEPS = 4


def steps_at(network: Network, card: str, batch: int) -> Trace | None:
    """A trace of training steps with this batch; None where the card's memory is too small."""
    weights_bytes = 16 * network.layers * network.width**2  # with gradients and two moments
    if weights_bytes + batch * network.sample_bytes > vgpu.CARDS[card].memory_bytes:
        return None
    program = Program(card)
    rows = batch * network.rows
    for number in range(STEPS):
        begin = program.timeline.host_ns
        program.copy(batch * IMAGE_BYTES)
        for _ in range(network.layers):
            program.matmul(rows, network.width, network.width)
            program.pointwise(rows * network.width, "aten::gelu")
        if network.fixed_ms:
            nbytes = network.fixed_ms / 1e3 * program.card.bandwidth_bytes_per_s * program.card.memory_share("scan")
            program.run("aten::cumsum", Kernel("single_block_scan", "scan", nbytes, work=(4096,)))
        for _ in range(network.layers):
            program.pointwise(rows * network.width, "aten::gelu_backward")
            program.matmul(rows, network.width, network.width, "aten::mm")
            program.matmul(network.width, network.width, rows, "aten::mm")
        program.pointwise(3 * network.layers * network.width**2, "aten::_fused_adam_")
        program.block(f"ProfilerStep#{number}", begin)
    program.wait()
    return program.trace()


def step_ms(trace: Trace) -> float:
    """What a step took: from the first step's begin until the GPU's last work, by the number of steps."""
    steps = [span for span in trace.spans if span.category == "annotation" and span.name.startswith("ProfilerStep#")]
    last_us = max(span.end_us for span in trace.spans if span.category in ("annotation", "kernel", "memcpy"))
    return (last_us - steps[0].start_us) / len(steps) / 1e3
