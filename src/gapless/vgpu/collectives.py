"""Collectives on tensors of the virtual GPU: done on their values, by the backend that the group has for ``vgpu``.

``torch.distributed.init_process_group("vgpu:gloo")`` makes a group that serves the virtual GPU and not the CPU, as NCCL's
serves CUDA alone; ``"gloo"`` or ``"cpu:gloo,vgpu:gloo"`` one that serves both. A group that serves CUDA serves the virtual
GPU too. Values are real. No time passes on the modelled card: communication is not modelled.
"""

from __future__ import annotations

import weakref

import torch
import torch.distributed as dist

from .dispatch import compute, handles, unwrap, wrap_results
from .tensor import DEVICE, VirtualTensor

_DONE_ON_VALUES = ("barrier", "allgather_", "_allgather_base_", "allreduce_", "broadcast_", "gather_", "scatter_", "reduce_",
                   "reduce_scatter_", "_reduce_scatter_base_", "alltoall_", "alltoall_base_")

# Group → the same members, with the virtual GPU's backend in the CPU's place.
_on_values: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _with_values(group: dist.ProcessGroup) -> dist.ProcessGroup:
    """Raises RuntimeError where the group serves no virtual GPU."""
    known = _on_values.get(group)
    if known is None:
        try:
            backend = group._get_backend(DEVICE)
        except RuntimeError as error:
            try:
                backend = group._get_backend(torch.device("cuda"))  # as init_process_group("gloo") has
            except RuntimeError:
                raise error from None
        known = dist.ProcessGroup(dist.HashStore(), group.rank(), group.size())
        known._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.UNDEFINED, backend)
        _on_values[group] = known
    return known


def _is_group(value) -> bool:
    return isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type())


def with_handles(link, func, args, kwargs):
    """One operator of ``c10d`` where the device is in another process: in a group of one process, whose members' values are
    its own. Raises NotImplementedError in a larger one, RuntimeError where the group serves no virtual GPU."""
    name = func._schema.name.split("::", 1)[1]
    group = next(dist.ProcessGroup.unbox(value) for value in args if _is_group(value))
    if group.size() > 1 or name not in ("barrier", "allreduce_", "broadcast_", "reduce_", "allgather_", "_allgather_base_"):
        raise NotImplementedError(f"{func._schema.name} among {group.size()} processes is not supported in a graded cell")

    def stand_in(value):
        if isinstance(value, VirtualTensor):
            return torch.zeros(value.shape, dtype=value.dtype)
        if isinstance(value, (list, tuple)):
            return type(value)(stand_in(item) for item in value)
        return _with_values(group).boxed() if _is_group(value) else value

    done = func(*stand_in(args), **{key: stand_in(value) for key, value in kwargs.items()})
    if name == "barrier":
        return done
    if "allgather" in name:
        pairs = zip(args[0], args[1]) if name == "allgather_" else [([args[0]], args[1])]
        for outputs, given in pairs:
            link.run(torch.ops.aten.copy_.default, (outputs[0], given), {})
    return args[0], done[-1]


if dist.is_available():

    @handles(*(f"c10d::{name}" for name in _DONE_ON_VALUES))  # aten has a scatter_ too
    def collective(operator, args, kwargs):
        """One operator of ``c10d`` on the values of its tensors."""
        inner_args, inner_kwargs, seen = unwrap(operator, args, kwargs)
        inner_args = [_with_values(dist.ProcessGroup.unbox(value)).boxed() if _is_group(value) else value
                      for value in inner_args]
        return wrap_results(operator, compute(operator, inner_args, inner_kwargs)[0], seen, args)
