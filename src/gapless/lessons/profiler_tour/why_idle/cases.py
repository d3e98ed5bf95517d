"""Lesson 01: the inputs of ``why_idle``."""

from __future__ import annotations

import numpy as np

from .... import vgpu
from ....course.evidence import Case
from ..cases import CARDS, trace_case, trapped_cases
from ..disturbances import OCCUPANCY, early_work
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS, idle_program


def idle_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cards = [str(card) for card in rng.permutation(CARDS)]
    plans = [
        (SMALL_KERNELS, {"labelled": True}), (SMALL_BATCH, {}), (SLOW_LOADER, {"labelled": True}),
        (SMALL_BATCH, {"labelled": True, "waits": True}), (SLOW_LOADER, {"small": True, "stacks": True}),
        (SMALL_KERNELS, {"waits": True}),
        (SLOW_LOADER, {"waits": True, "stacks": True}), (SMALL_BATCH, {"labelled": True}), (SMALL_KERNELS, {}),
    ]
    cases = []
    for number, place in enumerate(rng.permutation(len(plans)), start=1):
        cause, options = plans[place]
        card = cards[place % len(cards)]
        events = idle_program(rng, cause, card, **options)
        cases.append(trace_case(f"program {number} on a {vgpu.CARDS[card].name}", events))

    def make(*causes: str) -> list[dict]:
        cause = str(rng.choice(causes))
        events = idle_program(rng, cause, str(rng.choice(CARDS)), labelled=True, stacks=True, steps=int(rng.integers(1, 4)))
        # How full an SM is says nothing of how many have a block.
        low, high = (4, 14) if cause == SMALL_KERNELS else (55, 95)
        return [{**event, "args": {**event["args"], OCCUPANCY: int(rng.integers(low, high))}}
                if event.get("cat") == "kernel" else event for event in events]

    # A loader that is taken for something else, and the other way round. Whether work before the steps counts the text
    # leaves open.
    trapped = [*trapped_cases(rng, lambda: make(SLOW_LOADER), without=(early_work,)),
               *trapped_cases(rng, lambda: make(SMALL_BATCH, SMALL_KERNELS), without=(early_work,))]
    return cases + [trace_case(name, events) for name, events in trapped]
