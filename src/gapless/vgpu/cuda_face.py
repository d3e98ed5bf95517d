"""What programs call on ``torch.cuda`` beyond streams and random numbers: memory reports, settings, submodules.

Each public name of ``torch.cuda`` is on ``torch.vgpu``, or an AttributeError that says what to call.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import OrderedDict

import torch

from . import accelerator, sync_debug
from .dispatch import check_device
from .state import state
from .streams import Event, Stream
from .tensor import DEVICE, NAME

# Name → what to do, where the device has no such thing.
INSTEAD: dict[str, str] = {}
for _names, _advice in {
    "CUDAGraph graph graphs graph_annotations make_graphed_callables graph_pool_handle export_dot export_graph_data":
        "graphs are not modelled: call the function itself",
    "MemPool use_mem_pool CUDAPluggableAllocator change_current_allocator caching_allocator_alloc caching_allocator_delete "
    "caching_allocator_disabled":
        "there is one allocator, and no memory to hand out: make a tensor",
    "ExternalStream get_stream_from_external GreenContext green_contexts": "make a stream with torch.vgpu.Stream()",
    "DeferredCudaCallError cudart check_error cudaStatus CudaError current_blas_handle current_solver_handle nccl gds "
    "jiterator tunable":
        "there is no CUDA library behind the device: use operators of torch",
    "memory_snapshot": "blocks are not kept: gapless.profiler.profile(profile_memory=True) has a timeline of the memory",
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

_COUNTED = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")


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
    """The methods; ``gapless.vgpu.backend.DeviceModule`` adds the rest."""

    __name__ = f"torch.{NAME}"
    OutOfMemoryError = torch.OutOfMemoryError
    AcceleratorError = torch.AcceleratorError
    StreamContext = Stream  # a stream is its own context
    has_half = True
    has_magma = False

    def __init__(self):
        super().__init__()
        ranges = _Range()
        self.nvtx = _submodule("nvtx", **{name: getattr(ranges, name) for name in dir(ranges) if not name.startswith("_")})
        self.amp = _amp()
        self.streams = _submodule("streams", Stream=Stream, Event=Event)
        self.memory = _submodule("memory", **{name: getattr(self, name) for name in dir(torch.cuda.memory)
                                              if not name.startswith("_") and hasattr(type(self), name)})
        self.random = _submodule("random", **{name: getattr(self, name) for name in torch.cuda.random.__all__})

    def __getattr__(self, name: str):
        if name in INSTEAD:
            raise AttributeError(f"torch.{NAME} has no {name}: {INSTEAD[name]}")
        raise AttributeError(f"torch.{NAME} has no {name}")

    # -- memory -----------------------------------------------------------------------------------

    def memory_stats_as_nested_dict(self, device=None) -> dict:
        """Bytes by PyTorch's names, nested."""
        return accelerator.stats(-1)

    def memory_summary(self, device=None, abbreviated: bool = False) -> str:
        """A table of :meth:`memory_stats`, in MiB."""
        stats, line = self.memory_stats(), f"|{'=' * 54}|"
        rows = [f"| {name.replace('_', ' '):<20} | {stats[f'{name}.all.current'] / 2**20:>13.2f} | "
                f"{stats[f'{name}.all.peak'] / 2**20:>13.2f} |" for name in _COUNTED if f"{name}.all.current" in stats]
        title = f"| PyTorch memory of {DEVICE}, {state.card.name}, simulated, MiB"
        return "\n".join([line, title, line, f"| {'':<20} | {'current':>13} | {'peak':>13} |", *rows, line, ""])

    def reset_max_memory_allocated(self, device=None) -> None:
        """Begin a new peak."""
        self.reset_peak_memory_stats()

    reset_max_memory_cached = reset_max_memory_allocated

    def reset_accumulated_memory_stats(self, device=None) -> None:
        """Nothing is accumulated."""

    def memory_cached(self, device=None) -> int:
        """What ``memory_reserved`` is."""
        return state.memory.allocated_bytes

    def max_memory_cached(self, device=None) -> int:
        """What ``max_memory_reserved`` is."""
        return state.memory.peak_bytes

    def device_memory_used(self, device=None) -> int:
        """Bytes taken on the card: this process's."""
        return state.memory.allocated_bytes

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
        state.memory.capacity_bytes = int(state.card.memory_bytes * fraction)

    def get_per_process_memory_fraction(self, device=None) -> float:
        """The part of the card's memory that can be taken."""
        return state.memory.capacity_bytes / state.card.memory_bytes

    def get_allocator_backend(self) -> str:
        """``native``: the sizes are those of PyTorch's own."""
        return "native"

    def caching_allocator_enable(self, value: bool = True) -> None:
        """The cache of freed blocks is not modelled."""

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

    def is_current_stream_capturing(self) -> bool:
        """No graph of kernels is ever captured."""
        return False

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
