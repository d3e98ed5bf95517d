"""Registers the virtual GPU with PyTorch as the device ``vgpu`` and ``torch.vgpu`` as its module."""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import torch
from torch.utils import backend_registration

from . import (
    backward_errors,
    operators,  # noqa: F401  registers its handlers
)
from .dispatch import check_device, dispatch
from .pinned import is_pinned, pin
from .specs import Card, find_card
from .state import state
from .tensor import DEVICE, NAME, VirtualTensor


class Event:
    """A point in a stream, as ``torch.cuda.Event``. Times are virtual."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        self.enable_timing = enable_timing
        self._time_ns: int | None = None

    def record(self, stream=None) -> None:
        """Mark the work queued in ``stream`` (default: the current one) so far."""
        self._time_ns = state.timeline.record_event(stream._stream if stream is not None else None)

    def wait(self, stream=None) -> None:
        """Later work in ``stream`` waits for this point; the host does not."""
        if self._time_ns is not None:
            state.timeline.stream_wait_event(self._time_ns, stream._stream if stream is not None else None)

    def synchronize(self) -> None:
        """The host waits for this point."""
        if self._time_ns is not None:
            state.timeline.synchronize_event(self._time_ns)

    def query(self) -> bool:
        """Whether the device has reached this point."""
        return self._time_ns is None or self._time_ns <= state.timeline.host_ns

    def elapsed_time(self, end: Event) -> float:
        """Virtual ms from this event to ``end``. Raises RuntimeError if either was not recorded or is not reached yet."""
        if not (self.enable_timing and end.enable_timing):
            raise RuntimeError("both events must be made with enable_timing=True")
        if self._time_ns is None or end._time_ns is None:
            raise RuntimeError("both events must be recorded before their distance can be taken")
        if not (self.query() and end.query()):
            raise RuntimeError("device not ready: synchronize before the distance of two events is taken")
        return (end._time_ns - self._time_ns) / 1e6


class Stream:
    """An in-order queue of device work, as ``torch.cuda.Stream``."""

    def __init__(self, device=None, priority: int = 0, _stream=None):
        self._stream = _stream if _stream is not None else state.timeline.new_stream()

    def synchronize(self) -> None:
        """The host waits for all work in this stream."""
        state.timeline.synchronize_stream(self._stream)

    def wait_event(self, event: Event) -> None:
        """Later work here waits for ``event``."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Later work here waits for all that ``stream`` holds now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event here and return it."""
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work here is done."""
        return self._stream.ready_ns <= state.timeline.host_ns

    def __eq__(self, other):
        return isinstance(other, Stream) and self._stream is other._stream

    def __hash__(self):
        return hash(self._stream)


class DeviceModule(backend_registration._DummyBackendModule):
    """``torch.vgpu``: the part of ``torch.cuda``'s face that training programs use."""

    Event = Event
    Stream = Stream

    def synchronize(self, device=None) -> None:
        """The host waits for all work of the device."""
        state.timeline.synchronize_device()

    def current_stream(self, device=None) -> Stream:
        """The stream that work goes to."""
        return Stream(_stream=state.timeline.current)

    def default_stream(self, device=None) -> Stream:
        """The stream that work goes to unless told otherwise."""
        return Stream(_stream=state.timeline.streams[state.timeline.DEFAULT_STREAM])

    @contextmanager
    def stream(self, stream: Stream | None):
        """Work queued inside goes to ``stream``."""
        if stream is None:
            yield
            return
        before = state.timeline.current
        state.timeline.current = stream._stream
        try:
            yield
        finally:
            state.timeline.current = before

    def memory_allocated(self, device=None) -> int:
        """Bytes taken now."""
        return state.memory.allocated_bytes

    def max_memory_allocated(self, device=None) -> int:
        """Most bytes taken at once since the last reset."""
        return state.memory.peak_bytes

    def reset_peak_memory_stats(self, device=None) -> None:
        """Begin a new peak."""
        state.memory.peak_bytes = state.memory.allocated_bytes

    # The cache of freed blocks is not modelled: what is reserved is what is allocated.
    memory_reserved = memory_allocated
    max_memory_reserved = max_memory_allocated

    def mem_get_info(self, device=None) -> tuple[int, int]:
        """Bytes free and in all."""
        memory = state.memory
        return memory.capacity_bytes - memory.allocated_bytes, memory.capacity_bytes

    def empty_cache(self) -> None:
        """Nothing is cached here."""

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

    def manual_seed(self, seed: int) -> None:
        """Seed the CPU's generator, which makes the values here."""
        torch.default_generator.manual_seed(seed)

    def get_rng_state(self, device=None) -> torch.Tensor:
        """State of the CPU's generator."""
        return torch.get_rng_state()

    def set_rng_state(self, new_state, device=None) -> None:
        """Set the state of the CPU's generator."""
        torch.set_rng_state(new_state)


def _accelerator_synchronize(original):
    """``torch.accelerator.synchronize`` that waits on the virtual clock: PyTorch asks C++ device guards only."""

    @functools.wraps(original)
    def synchronize(device=None, /) -> None:
        state.timeline.synchronize_device()

    return synchronize


# Where PyTorch switches Python dispatch off (inside torch.tensor(..., device=...)), the fallback is not found
# for an operator with a tensor argument; an entry of its own is.
_WITHOUT_PYTHON_KEY = ("copy_", "_to_copy", "_local_scalar_dense", "clone", "detach", "fill_", "zero_")

_library = None


# Operators that a network under autocast comes to first: what is needed to say clearly that it is not supported.
_AUTOCAST_FIRST = ("conv1d", "conv2d", "conv3d", "linear", "matmul", "mm", "bmm", "addmm")


def _no_autocast(*args, **kwargs):
    raise NotImplementedError(f"autocast is not supported on {NAME}: convert with .half() or .bfloat16()")


def _keep_on_cpu(storage, location: str):
    return storage if location.startswith(NAME) else None


def _call(func, *args, **kwargs):
    return dispatch(func, args, kwargs)


def enable(card: str | Card | None = None) -> torch.device:
    """Make ``vgpu`` a device of PyTorch, modelling ``card`` (default: the card in use, at first A10G).

    Naming another card than the one in use sets the clocks to zero. Returns ``vgpu:0``. Raises UnknownCard; RuntimeError if
    another PrivateUse1 backend is registered in this process, or while a profile records.
    """
    global _library
    if card is not None:
        found = card if isinstance(card, Card) else find_card(card)
        if found is not state.card:
            if state.timeline.recording is not None:
                raise RuntimeError(f"a profile records {state.card.name}: change the card before or after it")
            state.use(found)
    if _library is None:
        name = torch._C._get_privateuse1_backend_name()
        if name not in ("privateuseone", NAME):
            raise RuntimeError(f"PyTorch allows one extra backend a process and {name!r} is it: start a new process")
        backend_registration._setup_privateuseone_for_python_backend(
            NAME, backend_module=DeviceModule(), device_guard=backward_errors.DeviceGuard())
        backward_errors.install()
        torch.accelerator.synchronize = _accelerator_synchronize(torch.accelerator.synchronize)
        # torch.load(..., map_location=vgpu): the storage stays on the CPU, tensors saved from here go back to the device.
        torch.serialization.register_package(5, lambda storage: None, _keep_on_cpu)
        everything = torch.library.Library("_", "IMPL")
        everything.fallback(lambda op, *args, **kwargs: dispatch(op, args, kwargs), "PrivateUse1")
        aten = torch.library.Library("aten", "IMPL")
        for name in _WITHOUT_PYTHON_KEY:
            for overload in getattr(torch.ops.aten, name).overloads():
                if overload in ("default", "Scalar", "Tensor"):
                    func = getattr(getattr(torch.ops.aten, name), overload)
                    aten.impl(func, functools.partial(_call, func), "PrivateUse1")
        for name in _AUTOCAST_FIRST:
            aten.impl(name, _no_autocast, "AutocastPrivateUse1")
        aten.impl("_pin_memory", lambda self, device=None: pin(self), "CPU")
        aten.impl("is_pinned", lambda self, device=None: is_pinned(self), "CPU")
        # The multi-tensor path of torch.optim is for exact types only.
        sys.modules["torch.optim.optimizer"]._foreach_supported_types.append(VirtualTensor)
        _library = (everything, aten)
    return DEVICE
