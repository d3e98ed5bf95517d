"""A forked process that has a device of its own, as each rank of a run has."""

from __future__ import annotations

import torch

from . import host_clock
from .hardware.specs import Card
from .state import state


def begin_anew(card: Card) -> None:
    """In a forked process: it has a device of its own, ``card``, with clocks at zero and nothing in its memory. What the
    process before made on its device is its own values here, in memory that is counted nowhere."""
    host_clock.forget()
    state.link, state.tape, state.region, state.shape_only = None, None, None, None
    state.counting, state.forked = None, False
    state.timeline.forget_due()
    state.timeline.recording = state.timeline.counted = None
    state.use(card)
    # In as many threads as there are processes each would wait for the others, and those of OpenMP do not live through a
    # fork.
    torch.set_num_threads(1)
