"""``DistributedDataParallel`` with ``find_unused_parameters=True`` or ``static_graph=True``: the map of used parameters.

DDP's reducer keeps, for each parameter, whether this process has used it: a map in the host's memory, and one on the device
that is summed over all processes. In between it makes a pinned copy (c10d, reducer.cpp, ``all_reduce_local_used_map``), for
which C++ asks the device's C++ hooks: a backend in Python has none. Here the reducer gets as its second map one that C++
takes for a tensor on the CPU and that does what the device's would: a copy from pinned memory that does not block, a
collective, a copy back that does.

When DDP's logger first notes what a step takes it warns, past Python and in each process, that it has no stopwatch for this
device. It notes it once somebody asks.

DDP's own mixed precision gives each bucket new memory before the first step, and leaves the views of it that gradients are
copied to in the old (reducer.cpp, ``set_mixed_precision_param_dtype``); after that step the buckets are made again. It is
the same here, and a warning says so.
"""

# mypy: disable-error-code="arg-type, assignment, misc, override, valid-type"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import warnings

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from ..core.dispatch import check_device
from ..core.tensor import VirtualTensor
from ..ordering import pinned
from ..process.state import DEVICE, NAME, exact, state
from . import communication

aten = torch.ops.aten


class UsedMap(torch.Tensor):
    """The map on the device, ``on_device``: int32 [parameters]."""

    on_device: VirtualTensor

    @staticmethod
    def __new__(cls, on_device: VirtualTensor):
        self = torch.Tensor._make_wrapper_subclass(cls, on_device.shape, dtype=on_device.dtype, device="cpu")
        self.on_device = on_device
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is not aten.copy_.default:
            return func(*tree_map_only(cls, lambda each: each.on_device, args), **(kwargs or {}))
        target, source, *_ = args
        if isinstance(target, cls):
            target.on_device.copy_(pinned.pin(source), non_blocking=True)
            return target
        used = source.on_device.cpu()
        # Without values: what this process has used all have used.
        return target if source.on_device.within.is_meta else target.copy_(used)


class _Maps(TorchDispatchMode):
    """While a reducer is made: of all that it makes on the device only the map holds integers."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        is_map = func is aten.empty.memory_format and isinstance(made, VirtualTensor) and made.dtype is torch.int32
        return UsedMap(made) if is_map else made


class _Indices(TorchDispatchMode):
    """While a reducer makes its buckets again, in the order of the first process's gradients, which goes to all in a tensor
    of integers: that has values always (reducer.cpp, ``sync_bucket_indices``)."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is not aten.empty.memory_format or kwargs.get("dtype") is not torch.int32:
            return func(*args, **kwargs)
        before, state.shape_only = state.shape_only, None  # exact(), without Python that would be counted
        try:
            return func(*args, **kwargs)
        finally:
            state.shape_only = before


def _with_maps(original):
    class Reducer(original):
        """DDP's reducer, which makes its maps again where the graph is said to be static."""

        def __init__(self, parameters, *args, **kwargs):
            self.is_on_device = isinstance(parameters[0], VirtualTensor)
            with _Maps():
                super().__init__(parameters, *args, **kwargs)

        def _rebuild_buckets(self) -> bool:
            with _Indices():
                return super()._rebuild_buckets()

        def _set_static_graph(self) -> None:
            with _Maps():
                super()._set_static_graph()

        def _set_mixed_precision_param_dtype(self, dtype: torch.dtype) -> None:
            super()._set_mixed_precision_param_dtype(dtype)
            warnings.warn("DistributedDataParallel(mixed_precision=…): PyTorch reduces memory that nobody has written in "
                          "the first backward pass, on CUDA too: drop that pass's gradients, or use torch.autocast",
                          stacklevel=4)

    return Reducer


def _without_stopwatch(original):
    class Logger(original):
        """DDP's logger, which leaves a reducer's times on this device alone until they are asked for: they are zeros."""

        def __init__(self, reducer):
            super().__init__(reducer)
            self._is_on_device = reducer.is_on_device

        def set_construction_data_and_log(self, name: str, device_ids: list[int], *others) -> None:
            """Raises RuntimeError for a second virtual GPU: without it the first forward pass would, over some list."""
            if self._is_on_device:
                for index in device_ids:
                    check_device(torch.device(NAME, index))
            super().set_construction_data_and_log(name, device_ids, *others)

        def set_runtime_stats_and_log(self) -> None:
            if not self._is_on_device:
                super().set_runtime_stats_and_log()

        def _get_ddp_logging_data(self):
            if self._is_on_device:
                super().set_runtime_stats_and_log()
            return super()._get_ddp_logging_data()

    return Logger


def _with_values(original):
    def _verify_params_across_processes(group, parameters, logger=None):
        """Compare shapes by values, on the device; parameters have values or not."""
        if not any(isinstance(each, VirtualTensor) and each.within.is_meta for each in parameters):
            return original(group, parameters, logger)
        with exact(), torch.no_grad():
            stand_ins = [torch.empty(1, device=DEVICE).expand(each.shape) for each in parameters]
            return original(group, stand_ins, logger)

    return _verify_params_across_processes


def _beside(original):
    def _register_comm_hook(reducer, hook_state, hook):
        return original(reducer, hook_state, communication.in_hook(hook))

    return _register_comm_hook


def _in_python(original):
    def _register_builtin_comm_hook(reducer, kind):
        """The hook of the same kind that is written in Python: what C++ hangs on a future knows of no stream here."""
        hooks = {dist.BuiltinCommHookType.ALLREDUCE: "allreduce_hook",
                 dist.BuiltinCommHookType.FP16_COMPRESS: "fp16_compress_hook"}
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks  # here: it takes long to import

        return dist._register_comm_hook(reducer, None, getattr(default_hooks, hooks[kind]))

    return _register_builtin_comm_hook


def install() -> None:
    """Let DDP's reducers have such maps, its loggers patience, and hooks a stream."""
    if dist.is_available():
        dist._register_comm_hook = _beside(dist._register_comm_hook)
        dist._register_builtin_comm_hook = _in_python(dist._register_builtin_comm_hook)
        dist.Reducer = _with_maps(dist.Reducer)
        dist.Logger = _without_stopwatch(dist.Logger)
        dist._verify_params_across_processes = _with_values(dist._verify_params_across_processes)
