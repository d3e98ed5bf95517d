"""Small traces for lesson 01's checks: made by chance with known traps, or run on the clocks of a modelled card.

Neither needs a GPU or PyTorch's device: the first kind is written event by event, the second drives a timeline of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..traces import Program

LOADER_LABEL = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SMALL_BATCH, SMALL_KERNELS, SLOW_LOADER = "small batch", "many small kernels", "slow loader"


def idle_program(rng: np.random.Generator, cause: str, card: str, *, labelled=False, waits=False, small=False,
                 stacks=False, load=(3.5, 5.0), steps=3, ready: int | None = None,
                 fetching: Sequence[float] = (), partly: int | None = None) -> list[dict]:
    """A few steps of a program whose GPU is idle for ``cause``. ``labelled``: fetching the batch carries PyTorch's label,
    whether it is slow or not; ``waits``: the loss is read at the end; ``small``: the slow loader's network has a small batch
    too, which is not what costs most; ``stacks``: the slow loader spends most of its time in an operator, on the host;
    ``load``: from and to how many steps' time the slow loader takes for a batch, on average; ``ready``: the step, from 1 on,
    whose batch it has fetched before. ``fetching``: how many steps' time each step's batch takes, in place of all that;
    ``partly``: the step, from 1 on, whose many small kernels fill a small part of the card."""
    program = Program(card, python_ns=int(rng.integers(500, 3_000)))
    timeline, step_ns = program.timeline, 0
    layers, width = int(rng.integers(10, 18)), int(rng.choice([256, 384, 512]))
    batch = int(rng.integers(4, 17)) if cause == SMALL_BATCH or small else int(rng.integers(20_000, 60_000))
    elements = int(program.card.sm_count * 512 * rng.uniform(3, 9))
    loads = rng.uniform(*load) * (steps / (steps - 1) if ready else 1)
    for number in range(1 + steps):
        begin = timeline.host_ns
        if cause == SLOW_LOADER or fetching:
            share, load_ns = 0.85 if stacks else 0.15, step_ns * loads * (number != ready)
            if fetching:
                load_ns = step_ns * fetching[number - 1]  # of the warm-up nothing, as it takes no time yet
            timeline.host_work(round(load_ns * (1 - share)))
            program.on_host("aten::stack", round(load_ns * share))
        else:
            program.on_host("aten::stack", int(rng.uniform(10_000, 30_000)))
        if labelled:
            program.block(LOADER_LABEL, begin)
        loaded = timeline.host_ns
        if cause == SMALL_KERNELS:
            program.copy(4 * elements)
            for _ in range(layers * 3):
                program.pointwise(elements // (40 if number == partly else 1),
                                  str(rng.choice(["aten::mul", "aten::add", "aten::tanh", "aten::pow"])))
        else:
            program.copy(4 * batch * width)
            for _ in range(layers):
                program.matmul(batch, width, width)
                program.pointwise(batch * width, "aten::relu")
        if waits:
            program.wait()
        if number == 0:  # a warm-up: how long a step takes, and no queue when recording begins
            program.wait()
            step_ns = timeline.host_ns - loaded
            timeline.recording.fields.clear()
        else:
            program.block(f"ProfilerStep#{number}", begin)
    program.wait()
    return program.trace().events
