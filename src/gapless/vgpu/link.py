"""The program's end of a device in another process (:mod:`gapless.vgpu.served` is the other end).

Here a tensor is a handle: a shape, strides, a dtype, and a number that means something over there. Every operator is
sent and answered, one at a time, so that an error is raised at the line that caused it. Values come over only where the
program reads them, as on any GPU.
"""

from __future__ import annotations

import os
import threading
from collections import deque

import torch

from . import pinned
from .location import operator_location
from .state import Assumptions, state
from .tensor import DEVICE, VirtualTensor
from .wire import Channel, Decoder, Encoder

_ERRORS = {kind.__name__: kind for kind in (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError, KeyError,
                                            AssertionError, ZeroDivisionError, OverflowError, BufferError,
                                            torch.OutOfMemoryError)}


class Handle:
    """What a tensor of the other process is: ``number`` names it there, the rest is what is known of it here."""

    __slots__ = ("link", "number", "shape", "_strides", "_offset", "dtype", "is_meta", "__weakref__")
    layout = torch.strided

    def __init__(self, link: Link, number: int, shape, strides, offset: int, dtype: torch.dtype, is_meta: bool):
        self.link, self.number, self.is_meta = link, number, is_meta
        self.shape, self._strides, self._offset, self.dtype = torch.Size(shape), tuple(strides), offset, dtype

    def stride(self) -> tuple[int, ...]:
        """In elements."""
        return self._strides

    def storage_offset(self) -> int:
        """In elements."""
        return self._offset

    def data_ptr(self) -> int:
        """A number that tells tensors apart."""
        return self.link.ask("data_ptr", self.number)

    def __del__(self):
        link = getattr(self, "link", None)
        if link is not None:
            link.released.append(self.number)


class Graph:
    """What the other process keeps of an operator for its backward pass."""

    def __init__(self, link: Link, number: int):
        self.link, self.number = link, number

    def __del__(self):
        self.link.released.append(self.number)


class Link:
    """A connection to a device. :meth:`install` makes it the virtual GPU of this process."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self.released: deque[int] = deque()  # numbers that nobody here holds any more; safe to add to from a finaliser
        self.lines = False  # whether the other side wants to know the program's line
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._settings: list | None = None

    def install(self) -> None:
        """From now on ``vgpu`` is the device at the other end."""
        state.link, state.timeline, state.memory = self, RemoteTimeline(self), RemoteMemory(self)

    # -- asking ---------------------------------------------------------------------------------

    def ask(self, what: str, *args):
        """Call the function ``what`` over there."""
        encoder = Encoder(_number)
        reply, _ = self._exchange({"ask": what, "args": encoder(args)}, encoder.blob)
        return self._decoder({}, b"")(reply["out"])

    def run(self, func, args, kwargs):
        """Run the operator ``func``, an OpOverload."""
        wrappers: dict[int, VirtualTensor] = {}
        encoder = Encoder(lambda tensor: self._argument(tensor, wrappers, encoder))
        generator = kwargs.get("generator")
        if generator is not None:
            kwargs = {**kwargs, "generator": None}
        message = {"op": func.name(), "args": encoder(args), "kwargs": {name: encoder(value) for name, value in kwargs.items()}}
        if generator is not None:
            message["generator"] = encoder.host(generator.get_state())
        reply, blob = self._exchange(message, encoder.blob)
        decode = self._decoder(wrappers, blob)
        for number, spec in reply.get("moved", ()):
            with torch._C._DisableTorchDispatch():
                wrappers[number].data = self._tensor(spec)
        if generator is not None:
            generator.set_state(decode(reply["generator"]))
        out = decode(reply["out"])
        for host in decode.pinned:
            return pinned.pin(host)  # a result of the host is one tensor
        if reply.get("written"):  # a copy into memory of the host, which is here
            return args[0].copy_(out)
        return out

    def fused(self, func, args, kwargs=None):
        """An operator that is caught where autograd begins, because its backward pass is an operator too."""
        return _Fused.apply(self, func, args, kwargs or {}, *_wrappers((args, kwargs or {})))

    # -- talking --------------------------------------------------------------------------------

    def receive(self) -> tuple[object, bytes]:
        """What the device wants of the program. Raises EOFError where it is gone."""
        return self.channel.receive()

    def send(self, message: dict, blob: bytes | bytearray = b"") -> None:
        """Tell the device; nothing comes back."""
        with self._lock:
            self.channel.send(self._with_news(message), blob)

    def _exchange(self, message: dict, blob) -> tuple[dict, bytes]:
        if os.getpid() != self._process:
            raise RuntimeError(f"{DEVICE} cannot be used in a forked process, as CUDA cannot: use the 'spawn' start method, or "
                               "keep what the other process makes on the CPU")
        if self.lines:
            message["line"] = operator_location()
        with self._lock:
            self.channel.send(self._with_news(message), blob)
            reply, found = self.channel.receive()
        error = reply.get("error")
        if error is not None:
            raise _ERRORS.get(error[0], RuntimeError)(error[1])
        return reply, found

    def _with_news(self, message: dict) -> dict:
        if self.released:
            message["free"] = [self.released.popleft() for _ in range(len(self.released))]
        settings = _settings()
        if settings != self._settings:
            self._settings = message["settings"] = settings
        return message

    def _argument(self, tensor: torch.Tensor, wrappers: dict, encoder: Encoder):
        if isinstance(tensor, VirtualTensor):
            wrappers[tensor.inner.number] = tensor
            return {"tensor": tensor.inner.number}
        if torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.PrivateUse1):
            # PyTorch traces with tensors of its own, which only say that they are here.
            raise NotImplementedError(f"a tensor that only says it is on {DEVICE} has no values")
        if tensor.is_meta:
            raise RuntimeError(f"Expected all tensors to be on the same device, but found {DEVICE} and meta")
        values = state.shape_only is None or tensor.dim() == 0 or tensor.dtype == torch.int64 and tensor.numel() < 2**16
        return encoder.host(tensor, pinned=pinned.is_pinned(tensor), values=values)

    def _decoder(self, wrappers: dict[int, VirtualTensor], blob: bytes) -> Decoder:
        return Decoder(lambda spec: wrappers[spec] if isinstance(spec, int) else self._tensor(spec), _device, blob)

    def encoder(self) -> Encoder:
        """For what is sent back: tensors of the device go by their numbers."""
        return Encoder(_number)

    def tensor(self, spec) -> VirtualTensor:
        """The tensor that the device has told of."""
        return self._tensor(spec)

    def _tensor(self, spec) -> VirtualTensor:
        number, shape, strides, offset, dtype, is_meta = spec
        handle = Handle(self, number, shape, strides, offset, getattr(torch, dtype), is_meta)
        return VirtualTensor(handle, handle)


def enter_mode(valueless: bool) -> None:
    """Whether tensors have values over there: who makes data on the host need not."""
    state.shape_only = Assumptions() if valueless else None


def _number(tensor: torch.Tensor):
    return {"tensor": tensor.inner.number} if isinstance(tensor, VirtualTensor) else None


def _device(name: str) -> torch.device:
    return torch.device(name) if name in ("cpu", "meta") else DEVICE


def _settings() -> list:
    """The program's switches that decide which kernels a card runs."""
    backends = torch.backends
    return [backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision, backends.cudnn.rnn.fp32_precision,
            str(torch.get_default_dtype()).removeprefix("torch.")]


def _wrappers(value) -> list[VirtualTensor]:
    if isinstance(value, VirtualTensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in _wrappers(item)]
    if isinstance(value, dict):
        return _wrappers(list(value.values()))
    return []


class _Fused(torch.autograd.Function):
    """Forward and backward over there; ``tensors`` are the wrappers in the arguments, which autograd must see."""

    @staticmethod
    def forward(ctx, link, func, args, kwargs, *tensors):
        ctx.set_materialize_grads(False)
        wanted = ctx.needs_input_grad[4:]
        encoder = Encoder(lambda tensor: link._argument(tensor, {}, encoder))
        reply, blob = link._exchange({"fused": func.name(), "args": encoder(args),
                                      "kwargs": {name: encoder(value) for name, value in kwargs.items()},
                                      "wanted": [t.inner.number for t, want in zip(tensors, wanted) if want]}, encoder.blob)
        ctx.link, ctx.wanted, ctx.graph = link, wanted, Graph(link, reply["graph"])
        if any(wanted):
            ctx.save_for_backward(*tensors)
        out = link._decoder({}, blob)(reply["out"])
        return tuple(out) if isinstance(out, list) else out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads):
        ctx.saved_tensors  # noqa: B018  raises PyTorch's own error where the graph is gone
        keep = torch._C._autograd._get_current_graph_task_keep_graph()
        found = iter(ctx.link.ask("backward", ctx.graph.number, list(grads), bool(keep)))
        return None, None, None, None, *(next(found) if want else None for want in ctx.wanted)


# -- clocks, memory, streams ----------------------------------------------------------------------


class RemoteTimeline:
    """The clocks over there, as far as a program may know and move them."""

    recording = None
    DEFAULT_STREAM = 7

    def __init__(self, link: Link):
        self._link = link
        self.wait_hooks: list = []

    @property
    def host_ns(self) -> int:
        """The modelled host's clock."""
        return self._link.ask("host_ns")

    def host_work(self, ns: int) -> None:
        """The host computes for ``ns``, at least 0."""
        self._link.ask("host_work", int(ns))

    def synchronize_device(self) -> None:
        """``cudaDeviceSynchronize``."""
        self._link.ask("synchronize_device")


class RemoteMemory:
    """The card's memory over there, in bytes."""

    def __init__(self, link: Link):
        self._link = link

    @property
    def capacity_bytes(self) -> int:
        """What the card has."""
        return self._link.ask("capacity_bytes")

    @property
    def allocated_bytes(self) -> int:
        """Taken now."""
        return self._link.ask("allocated_bytes")

    @property
    def peak_bytes(self) -> int:
        """Most taken at once."""
        return self._link.ask("peak_bytes")

    @peak_bytes.setter
    def peak_bytes(self, value: int) -> None:
        self._link.ask("reset_peak")


