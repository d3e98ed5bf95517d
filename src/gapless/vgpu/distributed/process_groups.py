"""Process groups on the virtual GPU: the backend ``vccl``, which stands for NCCL.

``init_process_group()`` without a backend, or with ``"vccl"``, makes a group that serves the virtual GPU and not the CPU, as
NCCL's serves CUDA alone; ``"cpu:gloo,vgpu:vccl"`` one that serves both. Where PyTorch finds no CUDA device, ``"nccl"``
is that backend too, so that a program runs as it was written; where it finds one, ``"nccl"`` is NCCL and serves that.
``"gloo"`` serves the CPU and the virtual GPU. Each process has a virtual GPU of its own, ``vgpu:0``.

Gloo moves the values. What NCCL has and Gloo lacks, coalescing and ``ReduceOp.PREMUL_SUM``, is here.
"""

# mypy: disable-error-code="assignment, attr-defined"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import datetime
import functools
import re

import torch
import torch.distributed as dist

from ..core.tensor import VirtualTensor
from ..hardware.kernels import costs
from ..process.state import NAME, state
from . import communication, standstill
from .collectives import backend_of, coalescing, premultiplied, together

BACKEND = "vccl"


def _create(options, backend_options=None):
    """The backend of one group. ``backend_options``, such as NCCL's, say nothing here."""
    if state.link is not None:
        return state.link.group(options.group_rank, options.group_size)
    communication.gather(options.store, options.group_id, options.group_rank,
                         list(options.global_ranks_in_group) or list(range(options.group_size)))
    # What goes between two processes is waited for in Gloo, and would be for half an hour.
    return dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, timeout=_limited(options.timeout))


def _limited(timeout: datetime.timedelta) -> datetime.timedelta:
    return datetime.timedelta(seconds=min(timeout.total_seconds(), standstill.limit_s()))


def _short(original):
    @functools.wraps(original)
    def _get_default_timeout(backend) -> datetime.timedelta:
        """How long a process waits for the others where the program says nothing. In a run of this package's no longer than
        it may: not for half an hour for a process that has ended before it made a group."""
        usual = original(backend)
        return _limited(usual) if standstill.has_board() else usual

    return _get_default_timeout


def _named(original):
    @functools.wraps(original)
    def _new_process_group_helper(size, rank, ranks, backend, store, *args, **kwargs):
        """A group of the backend that the program means: PyTorch 2.11 asks no plugin for NCCL, and takes Gloo for the
        backend of a group that was made without one. The group is known by the name that the program gave."""
        if not ranks and store is not None:  # the group of all: in its store nothing of an earlier one is taken for new
            made = store.add(f"gapless made by {rank}", 1)
            store = dist.PrefixStore(f"gapless {made}", store) if made > 1 else store
        meant = str(backend)
        if meant == dist.Backend.UNDEFINED and torch._C._get_accelerator().type == NAME:
            meant = BACKEND
        elif not torch.cuda.is_available():
            meant = re.sub(r"\bnccl\b", BACKEND, meant)
        made = original(size, rank, ranks, dist.Backend(meant), store, *args, **kwargs)
        known = dist.distributed_c10d._world.pg_map
        if isinstance(made[0], dist.ProcessGroup) and made[0] in known:
            known[made[0]] = backend, known[made[0]][1]
        return made

    return _new_process_group_helper


def _start_coalescing(original):
    def _start_coalescing(group, device):
        """What is called from here on is one work."""
        if device.type != NAME:
            return original(group, device)
        backend_of(group)
        coalescing[group] = []

    return _start_coalescing


def _end_coalescing(original):
    def _end_coalescing(group, device):
        """The work of all that was called since."""
        if device.type != NAME:
            return original(group, device)
        return together(coalescing.pop(group))

    return _end_coalescing


# Methods of a group that take the options of a reduction. An operator sees of a ReduceOp neither its kind nor its factor.
_REDUCTIONS = ("allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_single",
               "_reduce_scatter_base", "reduce_scatter_tensor_coalesced")


def _premultiplied(original):
    @functools.wraps(original)
    def reduction(group, *args, **kwargs):
        options = next((each for each in (*args, *kwargs.values()) if hasattr(each, "reduceOp")), None)
        if options is None or options.reduceOp != dist.ReduceOp.PREMUL_SUM:
            return original(group, *args, **kwargs)
        if not any(isinstance(tensor, VirtualTensor) for tensor in costs.tensors(args)):
            return original(group, *args, **kwargs)  # another backend's
        whole, factor = options.reduceOp, options.reduceOp.__getstate__()[1]
        premultiplied.append(factor.within if isinstance(factor, VirtualTensor) else factor)
        options.reduceOp = dist.ReduceOp.SUM
        try:
            return original(group, *args, **kwargs)
        finally:
            premultiplied.pop()
            options.reduceOp = whole

    return reduction


def _destroy(original):
    @functools.wraps(original)
    def destroy_process_group(group: dist.ProcessGroup | None = None):
        every = group is None or group == dist.group.WORLD
        for each in list(dist.distributed_c10d._world.pg_map) if every else [group]:
            communication.left(each)
        return original(group)

    return destroy_process_group


def _future(original):
    def get_future(work: dist.Work):
        """What hangs on the future runs at once, on the current stream: let that wait for the collective called last."""
        communication.wait_for_the_last()
        return original(work)

    return get_future


def install() -> None:
    """Tell PyTorch of the backend."""
    if not dist.is_available() or not dist.is_gloo_available():
        return
    backends = dist.Backend
    backends.register_backend(BACKEND, _create, extended_api=True, devices=[NAME])
    if not torch.cuda.is_available():
        backends.backend_capability["nccl"] = [NAME]
    group = dist.distributed_c10d
    group._get_default_timeout = _short(group._get_default_timeout)
    group._new_process_group_helper = _named(group._new_process_group_helper)
    backends.backend_capability["gloo"] = [*backends.backend_capability["gloo"], NAME]
    dist.Work.get_future = _future(dist.Work.get_future)
    dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = _destroy(dist.destroy_process_group)
    group = dist.ProcessGroup
    group._start_coalescing = _start_coalescing(group._start_coalescing)
    group._end_coalescing = _end_coalescing(group._end_coalescing)
    for name in _REDUCTIONS:
        if hasattr(group, name):
            setattr(group, name, _premultiplied(getattr(group, name)))
