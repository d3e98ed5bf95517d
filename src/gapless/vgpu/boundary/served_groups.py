"""Process groups where the program is in another process: the device's end (:mod:`.linked_groups` is the other).

The device processes of all ranks are a process group of their own, made when the program makes its: values and clocks meet
here. A program may ask for the collectives in ``_CALLS``, on tensors that it was given or has made itself.
"""

# mypy: disable-error-code="call-overload"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..core.tensor import VirtualTensor
from ..distributed import communication
from ..process.state import DEVICE
from .wire import WireError

_REDUCTIONS = {int(kind): kind for kind in dist.ReduceOp.RedOpType.__members__.values()} if dist.is_available() else {}


def join_group() -> None:
    """Make the group of all ranks that the environment tells of, once all have come."""
    if not dist.is_initialized():
        dist.init_process_group("vccl")


def leave_group() -> None:
    """Let the others see that this rank comes to no further collective."""
    if dist.is_initialized():
        dist.destroy_process_group()


def collective(name: str, tensors: dict, options: dict):
    """One collective; its end, or None where nothing takes time. Raises WireError for what is none, RuntimeError where the
    program has made no group, and what the collective raises."""
    call = _CALLS.get(name) if isinstance(name, str) else None
    if call is None or not isinstance(tensors, dict) or not isinstance(options, dict):
        raise WireError("no collective")
    if not dist.is_initialized():
        raise RuntimeError("Default process group has not been initialized, please make sure to call init_process_group.")
    communication.last = None
    call(dist.group.WORLD, tensors, options)
    return None if communication.last is None else communication.last[2]


def _options(kind, given: dict):
    found = kind()
    found.asyncOp = bool(given.get("async_op", True))
    if "root_rank" in given:
        found.rootRank, found.rootTensor = int(given["root_rank"]), int(given.get("root_tensor", 0))
    if "reduce_op" in given:
        found.reduceOp = dist.ReduceOp(_REDUCTIONS[given["reduce_op"]])
    return found


def _tensors(tensors: dict, name: str) -> list[VirtualTensor]:
    found = tensors.get(name)
    found = [found] if isinstance(found, VirtualTensor) else found
    if not isinstance(found, list) or not all(isinstance(each, VirtualTensor) for each in found):
        raise WireError("no tensors of the device")
    return found


def _all_gather(group, tensors: dict, options: dict):
    outputs = tensors.get("output_tensors")
    if not isinstance(outputs, list):
        raise WireError("no lists of tensors")
    group.allgather([_tensors({"of": each}, "of") for each in outputs], _tensors(tensors, "input_tensors"),
                    _options(c10d.AllgatherOptions, options))


def _all_gather_base(group, tensors: dict, options: dict):
    (output,), (given,) = _tensors(tensors, "output_tensor"), _tensors(tensors, "input_tensor")
    group._allgather_base(output, given, _options(c10d.AllgatherOptions, options))


def _barrier(group, tensors: dict, options: dict):
    given = c10d.BarrierOptions()
    given.device = torch.device(DEVICE)
    group.barrier(given)


_CALLS: dict[str, Callable] = {
    "allreduce_": lambda group, tensors, options: group.allreduce(
        _tensors(tensors, "tensors"), _options(c10d.AllreduceOptions, options)),
    "broadcast_": lambda group, tensors, options: group.broadcast(
        _tensors(tensors, "tensors"), _options(c10d.BroadcastOptions, options)),
    "reduce_": lambda group, tensors, options: group.reduce(
        _tensors(tensors, "tensors"), _options(c10d.ReduceOptions, options)),
    "allgather_": _all_gather,
    "_allgather_base_": _all_gather_base,
    "barrier": _barrier,
}
