"""What programs call on ``torch.cuda`` beyond streams and random numbers: memory reports, settings, submodules.

Each public name of ``torch.cuda`` is on ``torch.vgpu``, or an AttributeError that says what to call.
"""

# mypy: disable-error-code="arg-type"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import functools
import pickle
import sys
import types
from collections import OrderedDict

import torch

from ..compiling import graphs
from ..core.dispatch import check_device
from ..ordering import sync_debug
from ..ordering.streams import Event, Stream
from ..process.state import DEVICE, NAME, state
from . import accelerator

# Name → what to do, where the device has no such thing.
INSTEAD: dict[str, str] = {}
for _names, _advice in {
    "graph_annotations export_dot export_graph_data":
        "a graph's nodes go to no file: a profile of a replay lists its kernels",
    "MemPool use_mem_pool CUDAPluggableAllocator change_current_allocator caching_allocator_alloc caching_allocator_delete "
    "caching_allocator_disabled":
        "there is one allocator, and no memory to hand out: make a tensor",
    "ExternalStream get_stream_from_external GreenContext green_contexts": "make a stream with torch.vgpu.Stream()",
    "DeferredCudaCallError cudart check_error cudaStatus CudaError current_blas_handle current_solver_handle nccl gds "
    "jiterator tunable":
        "there is no CUDA library behind the device: use operators of torch",
    "utilization memory_usage temperature power_draw clock_rate":
        "no driver counts it: gapless.views.gpu_utilization(trace) has what TensorBoard's overview shows",
    "list_gpu_processes": "no driver knows of it: torch.vgpu.memory_allocated() has this process's bytes",
    "sparse profiler": "it is PyTorch's own: torch.sparse, and gapless.profiler",
}.items():
    INSTEAD |= dict.fromkeys(_names.split(), _advice)
# Tensors by their type, as before PyTorch had devices.
_KINDS = "BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Half Int Long Short"
_TYPED = [f"{kind}{what}" for kind in _KINDS.split() for what in ("Tensor", "Storage")]
INSTEAD |= dict.fromkeys(_TYPED, 'say torch.empty(sizes, dtype=…, device="vgpu")')

_GRAPHS = ("CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables")

# What the summary shows → its title.
_COUNTED = {"allocated_bytes": "allocated memory", "active_bytes": "active memory", "requested_bytes": "requested memory",
            "reserved_bytes": "reserved memory", "inactive_split_bytes": "non-releasable", "allocation": "allocations",
            "segment": "segments", "inactive_split": "non-releasable blocks"}
_COLUMNS = ("current", "peak", "allocated", "freed")


def _cell(name: str, number: int | None) -> str:
    if number is None:
        return ""
    return f"{number / 2**20:.2f}" if name.endswith("_bytes") else str(number)


class _Range:
    """``torch.cuda.nvtx``: blocks that a profile shows, as ``record_function`` does."""

    def __init__(self):
        self._open: list[tuple[str, int]] = []
        self._started: dict[int, tuple[str, int]] = {}

    def range_push(self, msg: str) -> int:
        """Begin a block; its depth."""
        state.timeline.catch_up()
        self._open.append((str(msg), state.timeline.host_ns))
        return len(self._open) - 1

    def range_pop(self) -> int:
        """End the innermost block; its depth, or -1 where there is none."""
        if not self._open:
            return -1
        state.timeline.annotate(*self._open.pop())
        return len(self._open)

    def range_start(self, msg: str) -> int:
        """Begin a block that may end in any order; its number."""
        state.timeline.catch_up()
        number = max(self._started, default=0) + 1
        self._started[number] = (str(msg), state.timeline.host_ns)
        return number

    def range_end(self, range_id: int) -> None:
        """End the block of that number."""
        state.timeline.annotate(*self._started.pop(range_id))

    def mark(self, msg: str) -> None:
        """A block of no length."""
        state.timeline.catch_up()
        state.timeline.annotate(str(msg), state.timeline.host_ns)

    def range(self, msg: str, *args, **kwargs):
        """Context manager and decorator: a block; ``msg`` may have places for the arguments."""
        return torch.profiler.record_function(str(msg).format(*args, **kwargs))


def _submodule(name: str, **names) -> types.ModuleType:
    made = sys.modules[f"torch.{NAME}.{name}"] = types.ModuleType(f"torch.{NAME}.{name}")
    vars(made).update(names)
    return made


def _amp() -> types.ModuleType:
    on = {"device_type": NAME}
    return _submodule("amp", autocast=functools.partial(torch.autocast, NAME),
                      GradScaler=functools.partial(torch.amp.GradScaler, NAME),
                      custom_fwd=functools.partial(torch.amp.custom_fwd, **on),
                      custom_bwd=functools.partial(torch.amp.custom_bwd, **on))


class CudaFace:
    """The methods; ``gapless.vgpu.face.backend.DeviceModule`` adds the rest."""

    __name__ = f"torch.{NAME}"
    OutOfMemoryError = torch.OutOfMemoryError
    AcceleratorError = torch.AcceleratorError
    CUDAGraph, graph = graphs.CUDAGraph, graphs.graph
    make_graphed_callables = staticmethod(graphs.make_graphed_callables)
    graph_pool_handle = staticmethod(graphs.graph_pool_handle)
    is_current_stream_capturing = staticmethod(graphs.is_current_stream_capturing)
    StreamContext = Stream  # a stream is its own context
    has_half = True
    has_magma = False

    def __init__(self):
        super().__init__()
        ranges = _Range()
        self.nvtx = _submodule("nvtx", **{name: getattr(ranges, name) for name in dir(ranges) if not name.startswith("_")})
        self.amp = _amp()
        self.streams = _submodule("streams", Stream=Stream, Event=Event)
        self.graphs = _submodule("graphs", **{name: getattr(self, name) for name in _GRAPHS})
        self.memory = _submodule("memory", **{name: getattr(self, name) for name in dir(torch.cuda.memory)
                                              if not name.startswith("_") and hasattr(type(self), name)})
        vars(self.memory).update(_snapshot=self._snapshot, _dump_snapshot=self._dump_snapshot)
        self.random = _submodule("random", **{name: getattr(self, name) for name in torch.cuda.random.__all__})

    def __getattr__(self, name: str):
        if name in INSTEAD:
            raise AttributeError(f"torch.{NAME} has no {name}: {INSTEAD[name]}")
        raise AttributeError(f"torch.{NAME} has no {name}")

    # -- memory -----------------------------------------------------------------------------------

    def memory_stats_as_nested_dict(self, device=None) -> dict:
        """What the allocator counts, by PyTorch's names, nested."""
        return accelerator.stats(-1)

    def memory_summary(self, device=None, abbreviated: bool = False) -> str:
        """A table of :meth:`memory_stats`, sizes in MiB; a peak where one is kept."""
        stats = accelerator.stats(-1)
        line, rule = f"|{'=' * 73}|", f"|{'-' * 73}|"
        events = f"| out of memory: {stats['num_ooms']:<12} | failed cudaMallocs: {stats['num_alloc_retries']:<12}"
        rows = [line, f"| PyTorch memory of {DEVICE}, {state.card.name}, simulated".ljust(74) + "|", rule,
                events.ljust(74) + "|", line, f"| {'':<20} | " + " | ".join(f"{what:>10}" for what in _COLUMNS) + " |", rule]
        for name, title in _COUNTED.items():
            for kind in ("all",) if abbreviated else stats[name]:
                of = f"{title}" if kind == "all" else f"  {kind.replace('_', ' ')}"
                cells = [_cell(name, stats[name][kind].get(what)) for what in _COLUMNS]
                rows.append(f"| {of:<20} | " + " | ".join(f"{cell:>10}" for cell in cells) + " |")
        return "\n".join([*rows, line, ""])

    def memory_snapshot(self, device=None) -> list[dict]:
        """Each segment of the allocator and its blocks, as ``torch.cuda.memory_snapshot``, without stacks."""
        return state.memory.snapshot()

    def _snapshot(self, device=None) -> dict:
        """:meth:`memory_snapshot` in the form that pytorch.org/memory_viz reads; no history is kept."""
        return {"segments": self.memory_snapshot(), "device_traces": [[]], "allocator_settings": {}}

    def _dump_snapshot(self, filename: str = "dump_snapshot.pickle") -> None:
        """Write :meth:`_snapshot` for pytorch.org/memory_viz."""
        with open(filename, "wb") as file:
            pickle.dump(self._snapshot(), file)

    def reset_max_memory_allocated(self, device=None) -> None:
        """Begin a new peak."""
        self.reset_peak_memory_stats()

    reset_max_memory_cached = reset_max_memory_allocated

    def reset_accumulated_memory_stats(self, device=None) -> None:
        """What came and went is counted from now on."""
        state.memory.reset_accumulated()

    def memory_cached(self, device=None) -> int:
        """What ``memory_reserved`` is."""
        return self.memory_reserved()

    def max_memory_cached(self, device=None) -> int:
        """What ``max_memory_reserved`` is."""
        return self.max_memory_reserved()

    def device_memory_used(self, device=None) -> int:
        """Bytes taken on the card: this process's."""
        return state.memory.reserved_bytes

    def host_memory_stats(self) -> dict:
        """Nothing is counted of pinned memory."""
        return OrderedDict()

    host_memory_stats_as_nested_dict = host_memory_stats

    def reset_peak_host_memory_stats(self) -> None:
        """Nothing is counted."""

    reset_accumulated_host_memory_stats = reset_peak_host_memory_stats

    def set_per_process_memory_fraction(self, fraction: float, device=None) -> None:
        """From now on only this part of the card's memory can be taken. Raises ValueError outside 0 to 1."""
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        state.memory.allow(int(state.memory.capacity_bytes * fraction))

    def get_per_process_memory_fraction(self, device=None) -> float:
        """The part of the card's memory that can be taken."""
        memory = state.memory
        return 1.0 if memory.allowed_bytes is None else memory.allowed_bytes / memory.capacity_bytes

    def get_allocator_backend(self) -> str:
        """``native``: the sizes are those of PyTorch's own."""
        return "native"

    def caching_allocator_enable(self, value: bool = True) -> None:
        """It is always on."""

    # -- settings and questions -------------------------------------------------------------------

    def set_sync_debug_mode(self, debug_mode: int | str) -> None:
        """What an operator that waits does: "default", "warn" or "error", or 0, 1, 2. Raises RuntimeError for another.

        As on CUDA: operators and ``Stream.synchronize``; not the device's and events' ``synchronize``."""
        sync_debug.set_mode(debug_mode)

    def get_sync_debug_mode(self) -> int:
        """0, 1 or 2."""
        return sync_debug.mode()

    def can_device_access_peer(self, device, peer_device) -> bool:
        """There is no other device."""
        for each in (device, peer_device):
            check_device(torch.device(NAME, each) if isinstance(each, int) else torch.device(each))
        return False

    def is_tf32_supported(self) -> bool:
        """Whether the modelled card has TF32: since Ampere."""
        return state.card.compute_capability >= (8, 0)

    def get_arch_list(self) -> list[str]:
        """The modelled card's."""
        return ["sm_{}{}".format(*state.card.compute_capability)]

    def get_gencode_flags(self) -> str:
        """The modelled card's."""
        digits = "{}{}".format(*state.card.compute_capability)
        return f"-gencode compute=compute_{digits},code=sm_{digits}"

    def device_of(self, obj):
        """Context manager: the device of the tensor ``obj``, where it is on it."""
        return self.device(obj.device if getattr(obj, "device", None) is not None and obj.device.type == NAME else DEVICE)
