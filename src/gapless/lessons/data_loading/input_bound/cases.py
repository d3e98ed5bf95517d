"""Lesson 04: the inputs of ``input_bound``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ...profiler_tour.disturbances import TRAPS, together
from ...profiler_tour.traces import HOST, LOADER
from . import traces
from .traces import OWN, SEVERAL, loading_trace, program_trace

HIDDEN, LAUNCH_BOUND, WAIT_BOUND = "the GPU has work for longer than the loader takes", "bound by launches", "bound by waits"
NESTED, ELSEWHERE, MIRRORED = "a loader inside a loader", "another thread has a loader of its own", "blocks on the GPU's row"
CUT, OLDER = "blocks and work cut off by the first and the last step", "from an older profiler"
NO_STEPS = "no steps are marked"
NO_BLOCKS, NO_WORK, REAL = "no loader at all", "nothing on the GPU", "a real step on CUDA, with loader blocks put in"
SLOW, BESIDE = "a slow loader", "a copy on another stream during the block"
PARTLY = "the GPU is done in the middle of a block"
CARDS = ("t4", "v100", "a10g", "a100", "h100", "h200")


def _trace_case(name: str, events: list[dict]) -> Case:
    return Case(name, {}, {"events": events})


def input_bound_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def pick() -> str:
        return str(rng.choice(CARDS))

    made = {
        SLOW: loading_trace(rng),
        PARTLY: loading_trace(rng, queue=rng.uniform(2.5, 4), kernels=8),
        HIDDEN: loading_trace(rng, queue=25.0, kernels=8, steps=4),
        LAUNCH_BOUND: loading_trace(rng, load=(2, 5), queue=0.2, kernels=20),
        WAIT_BOUND: loading_trace(rng, load=(5, 12), queue=6.0, waits=True),
        "several workers, two streams": loading_trace(rng, queue=4.0, streams=2, name=SEVERAL, steps=4),
        BESIDE: loading_trace(rng, beside=True, streams=2, name=OWN),
        NESTED: loading_trace(rng, nested=True),
        ELSEWHERE: loading_trace(rng, elsewhere={"tid": LOADER}, queue=2.0),
        "another process has a loader of its own": loading_trace(rng, elsewhere={"pid": HOST + 1}, queue=2.0),
        "names that say something similar": loading_trace(rng, namesakes=True),
        MIRRORED: loading_trace(rng, mirrored=True, queue=2.0),
        CUT: traces.cut_off(rng, loading_trace(rng, queue=2.0)),
        NO_STEPS: traces.longer(rng, traces.without_steps(loading_trace(rng, queue=3.0))),
        f"{NO_STEPS}, and {ELSEWHERE}": traces.without_steps(loading_trace(rng, elsewhere={"tid": LOADER}, queue=2.0)),
        f"{NO_STEPS}, and {MIRRORED}": traces.without_steps(loading_trace(rng, mirrored=True, queue=2.0)),
        NO_BLOCKS: traces.without_blocks(loading_trace(rng)),
        NO_WORK: traces.without_work(loading_trace(rng)),
        OLDER: traces.of_an_older_profiler(loading_trace(rng, queue=2.0)),
        "one step": loading_trace(rng, steps=1),
        f"on the clocks of a {pick()}: a slow loader": program_trace(rng, pick(), load=rng.uniform(2, 4), batch=64),
        "on modelled clocks: the host is far ahead": program_trace(rng, pick(), load=0.3, batch=60_000),
        "on modelled clocks: a wait before each batch": program_trace(rng, pick(), load=0.5, batch=40_000, waits=True,
                                                                     name=SEVERAL),
        "on modelled clocks: many small kernels": program_trace(rng, pick(), load=0.02, batch=8),
    }
    for trap in (*TRAPS, together(TRAPS)):
        events = loading_trace(rng, queue=rng.uniform(1.5, 4), streams=int(rng.integers(1, 3)), waits=rng.random() < 0.3)
        events = trap.add(rng, events)
        name = trap.name if trap.name.startswith("all of") else f"a trace with {trap.name}"
        made[name] = [events[i] for i in rng.permutation(len(events))]
    made[REAL] = traces.real_with_blocks(rng)
    return [_trace_case(name, events) for name, events in made.items()]
