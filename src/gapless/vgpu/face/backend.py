"""Registers the virtual GPU with PyTorch as the device ``vgpu`` and ``torch.vgpu`` as its module."""

# mypy: disable-error-code="assignment, valid-type"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import SimpleNamespace

import torch
from torch.fx.experimental import proxy_tensor
from torch.utils import backend_registration

from .. import libraries
from ..boundary import processes
from ..compiling import compiling, graphs
from ..core import identity, out_arguments, random_numbers, storage, unsupported
from ..core.dispatch import COMPOSITES, check_device, dispatch
from ..core.tensor import VirtualTensor
from ..distributed import collectives, ddp, process_groups, sharded_random  # noqa: F401  collectives registers its handlers
from ..hardware.cards.cardfile import find_card
from ..hardware.cards.specs import Card
from ..host import data_loader, host_clock
from ..operators import (
    attention,
    autocast,
    copies,  # noqa: F401  registers its handlers
    ctc,
    fft,
    formulas,
    higher_order,
    linear_algebra,  # noqa: F401  registers its handlers
    multi_tensor,  # noqa: F401  registers what it makes of others
    nested,
    norms,
    rnn,
    sparse,
)
from ..ordering import backward_errors, pinned, streams, sync_debug
from ..ordering.streams import Event, Stream
from ..process import forks
from ..process.eager import eager
from ..process.state import DEVICE, NAME, state
from . import accelerator, cuda_face, debug_aids, modules, safetensors_files


class DeviceModule(cuda_face.CudaFace, backend_registration._DummyBackendModule):
    """``torch.vgpu``: the part of ``torch.cuda``'s face that training programs use."""

    Event = Event
    Stream = Stream
    _initialized = True  # checkpointing keeps the random state of a device that is

    _initialized = True  # torch.utils.checkpoint asks it whether the device has random numbers to be kept

    def _is_in_bad_fork(self) -> bool:
        return state.forked

    def synchronize(self, device=None) -> None:
        """The host waits for all work of the device."""
        if state.forked:
            forks.refuse()
        state.timeline.synchronize_device()

    def current_stream(self, device=None) -> Stream:
        """The stream that work goes to."""
        return streams.current_stream()

    def default_stream(self, device=None) -> Stream:
        """The stream that work goes to unless told otherwise."""
        return Stream(_stream=state.timeline.streams[state.timeline.DEFAULT_STREAM])

    def set_stream(self, stream: Stream | None) -> None:
        """Send work to ``stream`` from now on."""
        if stream is not None:
            streams.set_stream(stream)

    def stream(self, stream: Stream | None):
        """Context manager: work queued inside goes to ``stream``."""
        return nullcontext() if stream is None else stream

    def memory_allocated(self, device=None) -> int:
        """Bytes taken now."""
        return state.memory.allocated_bytes

    def max_memory_allocated(self, device=None) -> int:
        """Most bytes taken at once since the last reset."""
        return state.memory.peak_bytes

    def reset_peak_memory_stats(self, device=None) -> None:
        """Begin new peaks."""
        state.memory.reset_peak()

    def memory_reserved(self, device=None) -> int:
        """Bytes that the caching allocator holds, in use or not."""
        return state.memory.reserved_bytes

    def max_memory_reserved(self, device=None) -> int:
        """Most bytes held at once since the last reset."""
        return state.memory.stats()["reserved_bytes"]["all"]["peak"]

    def mem_get_info(self, device=None) -> tuple[int, int]:
        """Bytes that the driver has left, and in all."""
        return state.memory.free_bytes, state.memory.capacity_bytes

    def memory_stats(self, device=None) -> dict[str, int]:
        """What the allocator counts, by PyTorch's names, such as ``allocated_bytes.all.peak``."""
        return torch.accelerator.memory_stats()

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Whether there is a bfloat16, emulated or (since Ampere) real."""
        return including_emulation or state.card.compute_capability >= (8, 0)

    def init(self) -> None:
        """Nothing to begin."""

    def ipc_collect(self) -> None:
        """Nothing is shared with other processes."""

    def empty_cache(self) -> None:
        """Segments that are wholly free go back to the driver; the host waits for the device if there is one."""
        state.memory.empty_cache()

    def get_device_name(self, device=None) -> str:
        """The modelled card's name."""
        return state.card.name

    def get_device_capability(self, device=None) -> tuple[int, int]:
        """The modelled card's compute capability."""
        return state.card.compute_capability

    def get_device_properties(self, device=None) -> SimpleNamespace:
        """``name``, ``total_memory`` (bytes), ``multi_processor_count``, ``major`` and ``minor`` of the modelled card."""
        major, minor = state.card.compute_capability
        return SimpleNamespace(name=state.card.name, total_memory=state.card.memory_bytes, major=major, minor=minor,
                               multi_processor_count=state.card.sm_count)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """What ``torch.autocast`` could be asked for; checkpointing asks too, with autocast switched off."""
        return [torch.float16, torch.bfloat16]

    def set_device(self, device) -> None:
        """Accepts the one device."""
        check_device(torch.device(NAME, device) if isinstance(device, int) else torch.device(device))

    @contextmanager
    def device(self, device):
        """Accepts the one device."""
        self.set_device(device)
        yield

    # Random numbers are the CPU's.

    @property
    def default_generators(self) -> tuple[torch.Generator, ...]:
        """The generator of the one device: the CPU's."""
        return (torch.default_generator,)

    def manual_seed(self, seed: int) -> None:
        """Seed the CPU's generator, which makes the values here; where the device is in another process its numbers are
        made there. ``torch.manual_seed`` calls this, too."""
        torch.default_generator.manual_seed(seed)
        if state.link is not None:
            state.link.ask("seed", seed)

    manual_seed_all = manual_seed

    def seed(self) -> int:
        """Seed the CPU's generator by chance."""
        return torch.default_generator.seed()

    seed_all = seed

    def initial_seed(self) -> int:
        """What the CPU's generator was seeded with."""
        return torch.default_generator.initial_seed()

    def get_rng_state(self, device=None) -> torch.Tensor:
        """State of the CPU's generator."""
        with host_clock.uncounted():
            return torch.default_generator.get_state() if state.link is None else state.link.ask("random_state")

    def set_rng_state(self, new_state, device=None) -> None:
        """Set the state of the CPU's generator."""
        with host_clock.uncounted():
            if state.link is None:
                torch.default_generator.set_state(new_state)
            else:
                state.link.ask("set_random_state", new_state)

    def get_rng_state_all(self) -> list[torch.Tensor]:
        """The states of all devices' generators."""
        return [self.get_rng_state()]

    def set_rng_state_all(self, new_states) -> None:
        """Set the states of all devices' generators."""
        for each in new_states:  # libraries that found no CUDA hand over none
            self.set_rng_state(each)


# Where PyTorch switches Python dispatch off (inside torch.tensor(..., device=...)), the fallback is not found
# for an operator with a tensor argument; an entry of its own is.
_WITHOUT_PYTHON_KEY = ("copy_", "_to_copy", "_local_scalar_dense", "clone", "fill_", "zero_", "set_")

# Factories whose own kernels look for one of the device's, and crash.
_FACTORIES = ("kaiser_window",)

_library = None
# Contexts to be in while PyTorch is changed, for who watches what changes there: functions that make them.
around_enabling: list[Callable[[], AbstractContextManager]] = []


@eager
def _call(func, *args, **kwargs):
    return dispatch(func, args, kwargs)


def enable(card: str | Card | None = None) -> torch.device:
    """Make ``vgpu`` a device of PyTorch, modelling ``card`` (default: the card in use, at first A10G).

    Naming another card than the one in use sets the clocks to zero. Returns ``vgpu:0``. Raises UnknownCard; RuntimeError if
    another PrivateUse1 backend is registered in this process, while a profile records, or in a process that was forked after
    the device was enabled.
    """
    if state.forked:
        forks.refuse()
    if card is not None:
        found = card if isinstance(card, Card) else find_card(card)
        if found is not state.card:
            if state.timeline.recording is not None:
                raise RuntimeError(f"a profile records {state.card.name}: change the card before or after it")
            state.use(found)
            sync_debug.listen()
    if _library is None:
        with ExitStack() as around:
            for each in around_enabling:
                around.enter_context(each())
            _register()
    return DEVICE


def _register() -> None:
    """Put the device into PyTorch."""
    global _library
    name = torch._C._get_privateuse1_backend_name()
    if name not in ("privateuseone", NAME):
        raise RuntimeError(f"PyTorch allows one extra backend a process and {name!r} is it: start a new process")
    if torch.cuda.is_initialized():
        # Seen on an H100, torch 2.11: an assertion about streams fails in the autograd engine.
        warnings.warn("this process has used CUDA, and from now on PyTorch takes the virtual GPU for its accelerator: "
                      "backward passes on CUDA will fail. Simulate in a process of its own", RuntimeWarning, stacklevel=3)
    # The engine starts a thread for each device that it knows at its first pass, after which no forked process can run
    # one (torch/csrc/autograd/engine.cpp, ``start_device_threads``). Here none is ever used.
    with torch.inference_mode(False), torch.enable_grad():
        torch.ones(1, requires_grad=True).sum().backward()
    backend_registration._setup_privateuseone_for_python_backend(
        NAME, backend_module=DeviceModule(), device_guard=backward_errors.DeviceGuard())
    backward_errors.install()
    for part in (accelerator, streams, graphs, random_numbers, pinned, forks, identity, modules, processes,
                 process_groups, ddp, sharded_random, storage, safetensors_files, higher_order, nested,
                 libraries, compiling, data_loader, debug_aids):
        part.install()
    # PyTorch's tracer (``make_fx``, ``torch.func.linearize``) records operators on tensors of the classes that it knows. Any
    # other operator runs once, while tracing, and its result is a constant (``proxy_tensor.py``, ``can_handle_tensor``).
    proxy_tensor.HANDLED_TYPES += (VirtualTensor,)
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(_call, "PrivateUse1")
    everything.fallback(sparse.call, "SparsePrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    for name in _WITHOUT_PYTHON_KEY:
        for overload in getattr(torch.ops.aten, name).overloads():
            if overload in ("default", "Scalar", "Tensor", "source_Storage"):
                func = getattr(getattr(torch.ops.aten, name), overload)
                aten.impl(func, functools.partial(_call, func), "PrivateUse1")
    for name in _FACTORIES:
        for overload in getattr(torch.ops.aten, name).overloads():
            func = getattr(getattr(torch.ops.aten, name), overload)
            aten.impl(func, functools.partial(_call, func), "PrivateUse1")
    attention.install(aten)
    rnn.install(aten)
    norms.install(aten)
    ctc.install(aten)
    fft.install(aten)
    out_arguments.install(aten, COMPOSITES)
    formulas.install(aten)
    sparse.install(aten)
    for name in ("silu_backward", "mish_backward"):  # one kernel on CUDA; PyTorch's autograd would take it apart
        aten.impl(name, torch.library.fallthrough_kernel, "AutogradPrivateUse1")
    aten.impl("_pin_memory", lambda self, device=None: pinned.pin(self), "CPU")
    aten.impl("is_pinned", lambda self, device=None: pinned.is_pinned(self), "CPU")
    # The multi-tensor path of torch.optim, and of clipping, is for exact types only.
    for module in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        sys.modules[module]._foreach_supported_types.append(VirtualTensor)
    _library = (everything, aten, *autocast.install(), *unsupported.install())
