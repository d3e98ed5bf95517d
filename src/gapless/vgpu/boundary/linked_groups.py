"""Process groups where the device is in another process: the program's end (:mod:`.served_groups` is the other).

Each rank's program has a device process of its own, and the device processes are the group: there values and clocks meet.
Here a group knows its ranks and nothing else; a collective is asked for like an operator, and its end is a mark that streams
can wait for. What a program says of its rank must be what its launcher has told it.
"""

from __future__ import annotations

import functools
import os

import torch
import torch.distributed as dist

from ..core.tensor import VirtualTensor
from ..process.state import state

_ASKED = ("allreduce_", "broadcast_", "reduce_", "allgather_", "_allgather_base_", "barrier")


def install(rank: int, world: int) -> None:
    """This process's program is ``rank`` of ``world``, and its device is behind a link: ``init_process_group`` makes the
    group over there."""
    group = dist.distributed_c10d
    dist.init_process_group = group.init_process_group = _init(group.init_process_group, rank, world)


def _init(original, own_rank: int, own_world: int):
    @functools.wraps(original)
    def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, **options):
        """As PyTorch's; each rank gives its own number, or leaves it to the environment. Raises ValueError for another."""
        world_size = int(os.environ["WORLD_SIZE"]) if world_size in (-1, None) else world_size
        rank = int(os.environ["RANK"]) if rank in (-1, None) else rank
        if (rank, world_size) != (own_rank, own_world):
            raise ValueError(f"this process is rank {own_rank} of {own_world}, and said that it is rank {rank} of "
                             f"{world_size}: the others would wait for a rank that never comes")
        original("vccl", store=dist.HashStore(), rank=rank, world_size=world_size)
        state.link.ask("join_group")

    return init_process_group


def fake_group(rank: int, world: int):
    """The backend of a group whose values are elsewhere."""
    return torch._C._distributed_c10d.FakeProcessGroup._create_internal(rank, world)


def collective(link, func, args, kwargs) -> tuple | None:
    """One operator of ``c10d`` of several ranks, asked for over a :class:`.link.Link`; what names its end there, or None
    where nothing has to be waited for. Raises NotImplementedError for one that is not served."""
    name = func._schema.name.split("::", 1)[1]
    if name not in _ASKED:
        raise NotImplementedError(f"{func._schema.name} among several ranks is not supported in a graded cell: of "
                                  "collectives there are all_reduce, broadcast, reduce, all_gather, all_gather_into_tensor "
                                  "and barrier")
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args)} | kwargs
    group = dist.ProcessGroup.unbox(given["process_group"])
    if dist.get_process_group_ranks(group) != list(range(dist.get_world_size())):
        raise NotImplementedError("a group of some of the ranks is not supported in a graded cell: use the group of all")
    tensors = {key: value for key, value in given.items() if _has_tensors(value) and name != "barrier"}
    options = {key: given[key] for key in ("root_rank", "root_tensor", "async_op") if key in given}
    if given.get("reduce_op") is not None:
        options["reduce_op"] = given["reduce_op"].op()
    lines, link.lines = link.lines, True  # if the ranks do not meet, the message says where each waits
    try:
        return link.ask("collective", name, tensors, options)
    finally:
        link.lines = lines


def _has_tensors(value) -> bool:
    if isinstance(value, VirtualTensor):
        return True
    return isinstance(value, (list, tuple)) and any(map(_has_tensors, value))


