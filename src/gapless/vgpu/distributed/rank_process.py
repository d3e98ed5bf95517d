"""A forked process that has a device of its own, as each rank of a run has."""

from __future__ import annotations

import torch
import torch.distributed as dist

from ..hardware.cards.specs import Card
from ..host import host_clock
from ..process.state import state


def begin_anew(card: Card) -> None:
    """In a forked process: it has a device of its own, ``card``, with clocks at zero and nothing in its memory. What the
    process before made on its device is its own values here, in memory that is counted nowhere."""
    host_clock.forget()
    state.link, state.tape, state.region, state.shape_only = None, None, None, None
    state.counting, state.forked = None, False
    state.timeline.forget_due()
    state.timeline.recording = state.timeline.counted = None
    state.use(card)
    _forget_groups()
    # In as many threads as there are processes each would wait for the others, and those of OpenMP do not live through a
    # fork.
    torch.set_num_threads(1)


_kept: list = []  # groups of the process before: their threads are not here, and who lets go of one waits for them


def _forget_groups() -> None:
    """No process group is this process's: it may make one, as a process that was started again."""
    if not dist.is_available() or not dist.is_initialized():
        return
    c10d = dist.distributed_c10d
    world = c10d._world
    _kept.append((world.default_pg, list(world.pg_map.items())))
    c10d._update_default_pg(None)
    for known in (world.pg_map, world.pg_names, world.pg_group_ranks, world.pg_backend_config, world.pg_to_tag,
                  world.tags_to_pg, world.pg_coalesce_state):
        known.clear()
    c10d._unregister_all_process_groups()
    world.group_count = 0
