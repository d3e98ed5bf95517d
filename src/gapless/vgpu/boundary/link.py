"""The program's end of a device in another process (:mod:`.served` is the other end).

Here a tensor is a handle: a shape, strides, a dtype, and a number that means something over there. Every operator is
sent and answered, one at a time, so that an error is raised at the line that caused it. Values come over only where the
program reads them, as on any GPU.
"""

# mypy: disable-error-code="arg-type, assignment, attr-defined"
# The far side's timeline, memory and tensors stand where this process's own would.
from __future__ import annotations

import os
import threading
import weakref
import zlib
from collections import deque
from collections.abc import Callable
from typing import ClassVar

import torch

from ..compiling import regions
from ..core import random_numbers
from ..core.dispatch import of_the_device
from ..core.storage import become, of_the_card
from ..core.tensor import VirtualTensor, as_zero, lazily
from ..distributed.collectives import with_handles
from ..host import host_clock
from ..ordering import pinned
from ..process.location import operator_location
from ..process.state import DEVICE, Assumptions, state
from . import linked_groups
from .switches import in_words, switches
from .wire import Channel, Decoder, Encoder, bytes_of

_ERRORS = {kind.__name__: kind for kind in (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError, KeyError,
                                            AssertionError, ZeroDivisionError, OverflowError, BufferError,
                                            torch.OutOfMemoryError, torch.AcceleratorError)}


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


class Kept:
    """Something that the other process keeps for this one, under the number ``kept``: an operator that waits for its
    backward pass, a point in a stream, a stream."""

    def __init__(self, link: Link, kept: int | None):
        self.link, self.kept = link, kept

    def __del__(self):
        if self.kept is not None:
            self.link.released.append(self.kept)


class RemoteMark(Kept):
    """A point in a stream, as an event keeps it, reached at ``ns``. What comes before it is known over there."""

    known: ClassVar[dict[int, int]] = {}

    def __init__(self, link: Link, kept: int, ns: int):
        super().__init__(link, kept)
        self.ns = ns


class RemoteStream(Kept):
    """An in-order queue of device work; ``number`` as in a trace."""

    def __init__(self, link: Link, number: int, kept: int | None = None):
        super().__init__(link, kept)
        self.number = number


class RemoteCapture:
    """A graph that is captured and replayed over there."""

    def __init__(self, link: Link):
        self._link, self._kept = link, Kept(link, None)

    def begin(self, mode: str, pool: tuple[int, int], generators=()) -> None:
        """See :class:`..compiling.graphs.Captured`."""
        self._kept = Kept(self._link, self._link.ask("capture", mode, list(pool)))
        state.timeline.capture = self

    def end(self) -> int:
        """The capture ends; how many nodes the graph has."""
        state.timeline.capture = None
        return self._link.ask("end_capture", self._kept.kept)

    def replay(self) -> None:
        """One launch on the current stream."""
        self._link.ask("replay", self._kept.kept)


class Link:
    """A connection to a device. :meth:`install` makes it the virtual GPU of this process."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self.released: deque[int] = deque()  # numbers that nobody here holds any more; safe to add to from a finaliser
        self._counts = False
        self.lines = False  # whether the other side wants to know the program's line
        self.records = False  # whether it makes a trace
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._settings: list | None = None
        self._place: regions.Place | None = None  # of a compiled graph's: what the device knows
        # Copies between pinned memory here and the device that are under way: number → (the memory, its checksum where the
        # device reads it, else None).
        self._under_way: dict[int, tuple[torch.Tensor, int | None]] = {}
        self._changed: list[int] = []

    def install(self) -> None:
        """From now on ``vgpu`` is the device at the other end."""
        state.link, state.timeline, state.memory = self, RemoteTimeline(self), RemoteMemory(self)

    def captured(self) -> RemoteCapture:
        """A graph to capture."""
        return RemoteCapture(self)

    def group(self, rank: int, world: int):
        """The backend of a group of processes whose devices are behind links."""
        return linked_groups.fake_group(rank, world)

    def collective(self, func, args, kwargs) -> RemoteMark | None:
        """One operator of ``c10d`` of several ranks; its end, or None where nothing has to be waited for."""
        end = linked_groups.collective(self, func, args, kwargs)
        return None if end is None else RemoteMark(self, *end)

    # -- asking ---------------------------------------------------------------------------------

    @of_the_device
    def ask(self, what: str, *args):
        """Call the function ``what`` over there."""
        encoder = self.encoder()
        with torch._C._DisableTorchDispatch():  # a tensor of the host's is packed by nobody's operators
            message = {"ask": what, "args": encoder(args)}
        reply, blob = self._exchange(message, encoder.blob)
        with torch._C._DisableTorchDispatch():
            return self._decoder({}, blob)(reply["out"])

    def run(self, func, args, kwargs):
        """Run the operator ``func``, an OpOverload."""
        if func.namespace == "c10d":
            return with_handles(self, func, args, kwargs)
        if func.name().startswith("aten::set_.source_Storage"):
            return self._set(*args, **kwargs)
        wrappers: dict[int, VirtualTensor] = {}
        hosts: list[torch.Tensor] = []
        encoder = self._argument_encoder(wrappers, hosts)
        generator = kwargs.get("generator")
        for place, value in enumerate(args):  # some operators take it by its place
            if isinstance(value, torch.Generator):
                generator, args = value, (*args[:place], None, *args[place + 1:])
        if generator is not None:
            random_numbers.check(generator)
            kwargs = {**kwargs, "generator": None}
        message = {"op": func.name(), "args": encoder(args),
                   "kwargs": {name: encoder(value) for name, value in kwargs.items()}}
        if generator is not None:
            message["generator"] = encoder.host(generator.get_state())
        # A copy that the host does not wait for is sent with its line, in case something races with it.
        alone = bool(hosts) or kwargs.get("non_blocking") is True or (len(args) > 2 and args[2] is True)
        reply, blob = self._exchange(message, encoder.blob, line=alone)
        decode = self._decoder(wrappers, blob)
        for number, spec in reply.get("moved", ()):
            with torch._C._DisableTorchDispatch():
                wrappers[number].data = self._tensor(spec)
        if generator is not None:
            generator.set_state(decode(reply["generator"]))
        out = decode(reply["out"])
        if reply.get("written"):  # a copy into memory of the host, which is here
            out = args[0].copy_(out)
        if func is torch.ops.aten._to_copy.default and str(kwargs.get("device")) == "meta":
            out = out.to("meta")  # it came as one of the host's, without values
        for place, number, to_host in reply.get("under_way", ()):
            host = out if place is None else hosts[place]
            self._under_way[number] = host, None if to_host else _checksum(host)
        return as_zero(out) if func is torch.ops.aten._efficientzerotensor.default else out

    def _set(self, target: VirtualTensor, source, offset: int = 0, size=None, stride=None) -> VirtualTensor:
        """``target.set_(storage, …)``: the tensor lies in that memory from now on."""
        memory = of_the_card(source)._any.within.number
        become(target, self.ask("set", target.within.number, memory, offset, size, stride))
        return target

    def fused(self, func, args, kwargs=None):
        """An operator that is caught where autograd begins, because its backward pass is an operator too."""
        return _Fused.apply(self, func, args, kwargs or {}, *_wrappers((args, kwargs or {})))

    # -- talking --------------------------------------------------------------------------------

    def receive(self) -> tuple[dict, bytes]:
        """What the device wants of the program. Raises EOFError where it is gone."""
        self._count(False)
        message, blob = self.channel.receive()
        self._arrive(message, blob)
        state.timeline.back_to(message["stream"])
        self.lines, self.records = message["lines"], bool(message.get("records"))
        self._count(bool(message.get("counts")))
        state.shape_only = Assumptions() if message["valueless"] else None
        return message, blob

    def _arrive(self, message: dict, blob: bytes) -> None:
        """Copies whose end the clock over there has passed."""
        with torch._C._DisableTorchDispatch():  # they are nobody's operators
            self._take_in(message, blob)

    def _take_in(self, message: dict, blob: bytes) -> None:
        for number, content in message.get("arrived", ()):
            host, checksum = self._under_way.pop(number)
            if content is not None:
                with torch.no_grad():
                    host.copy_(self._decoder({}, blob)(content))
            elif _checksum(host) != checksum:
                self._changed.append(number)
            self.released.append(number)

    @of_the_device
    def send(self, message: dict, blob: bytes | bytearray = b"") -> None:
        """Tell the device; nothing comes back."""
        with self._lock:
            self.channel.send(self._with_news(message), blob)

    @of_the_device
    def _exchange(self, message: dict, blob, line: bool = False) -> tuple[dict, bytes]:
        if os.getpid() != self._process:
            raise RuntimeError(f"{DEVICE} cannot be used in a forked process, as CUDA cannot: use the 'spawn' start method, "
                               "or keep what the other process makes on the CPU")
        if line or self.lines or self._under_way or state.timeline.concurrent:
            message["line"] = operator_location()
        with self._lock:
            self.channel.send(self._with_news(message), blob)
            reply, found = self.channel.receive()
            self._arrive(reply, found)
        error = reply.get("error")
        if error is not None:
            raise _ERRORS.get(error[0], RuntimeError)(error[1])
        return reply, found

    def _count(self, wanted: bool) -> None:
        """Whether what the host does by itself is on the clock over there, until the program answers."""
        if wanted and not self._counts:
            host_clock.clock().begin()
        elif self._counts and not wanted:
            host_clock.clock().end()
        self._counts = wanted

    def _with_news(self, message: dict) -> dict:
        if self._counts:
            done_ns = state.timeline.counted()
            if done_ns:
                message["host"] = done_ns
        if self.released:
            message["free"] = [self.released.popleft() for _ in range(len(self.released))]
        if self._changed:
            message["changed"], self._changed = self._changed, []
        settings = switches()
        if settings != self._settings:
            self._settings = settings
            message["settings"] = in_words(settings)
        if state.regions is not None:
            place = regions.place()
            if place != self._place:
                self._place = place
                message["place"] = None if place is None else regions.in_words(place)
        return message

    def _argument_encoder(self, wrappers: dict[int, VirtualTensor], hosts: list[torch.Tensor]) -> Encoder:
        """For an operator's arguments; ``wrappers`` and ``hosts`` get the tensors of the device, by number, and the pinned
        ones of the host."""
        def argument(tensor: torch.Tensor, encoder: Encoder) -> dict:
            if isinstance(tensor, VirtualTensor):
                wrappers[tensor.within.number] = tensor
                return {"tensor": tensor.within.number}
            if torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.PrivateUse1):
                # PyTorch traces with tensors of its own, which only say that they are here.
                raise NotImplementedError(f"a tensor that only says it is on {DEVICE} has no values")
            if tensor.is_meta:
                raise RuntimeError(f"Expected all tensors to be on the same device, but found {DEVICE} and meta")
            is_pinned = pinned.is_pinned(tensor)
            if is_pinned:
                hosts.append(tensor)
                held = next((number for number, (host, _) in self._under_way.items() if _same(host, tensor)), None)
                if held is not None:
                    return {"held": held}
            few = tensor.dim() == 0 or (tensor.dtype == torch.int64 and tensor.numel() < 2**16)
            values = state.shape_only is None or few
            return encoder.host(tensor, pinned=is_pinned, values=values)

        return Encoder(argument)

    def _decoder(self, wrappers: dict[int, VirtualTensor], blob: bytes) -> Decoder:
        return Decoder(lambda spec: wrappers[spec] if isinstance(spec, int) else self._tensor(spec), _device, blob)

    def encoder(self) -> Encoder:
        """For what is sent back: tensors of the device are sent as their numbers."""
        return Encoder(lambda tensor, encoder: {"tensor": tensor.within.number} if isinstance(tensor, VirtualTensor)
                       else encoder.host(tensor))

    def values(self, sent, blob: bytes):
        """The tensors that the device has sent along with a message."""
        return self._decoder({}, blob)(sent)

    def _tensor(self, spec) -> VirtualTensor:
        number, shape, strides, offset, dtype, is_meta, *lazy = spec
        handle = Handle(self, number, shape, strides, offset, getattr(torch, dtype), is_meta)
        return lazily(VirtualTensor(handle, handle), *lazy)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are the same elements of the host's memory."""
    return (one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()
            and one.dtype == other.dtype)


def _checksum(host: torch.Tensor) -> int:
    return zlib.crc32(bytes_of(host))


def _device(name: str) -> torch.device:
    return torch.device(name) if name in ("cpu", "meta") else DEVICE


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
        encoder = link._argument_encoder({}, [])
        reply, blob = link._exchange({"fused": func.name(), "args": encoder(args),
                                      "kwargs": {name: encoder(value) for name, value in kwargs.items()},
                                      "wanted": [place for place, want in enumerate(wanted) if want]}, encoder.blob)
        ctx.link, ctx.wanted, ctx.graph = link, wanted, Kept(link, reply["graph"])
        if any(wanted):
            ctx.save_for_backward(*tensors)
        out = link._decoder({}, blob)(reply["out"])
        return tuple(out) if isinstance(out, list) else out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads):
        ctx.saved_tensors  # noqa: B018  raises PyTorch's own error where the graph is gone
        keep = torch._C._autograd._get_current_graph_task_keep_graph()
        found = iter(ctx.link.ask("backward", ctx.graph.kept, list(grads), bool(keep)))
        return None, None, None, None, *(next(found) if want else None for want in ctx.wanted)


# -- clocks, memory, streams ----------------------------------------------------------------------


class RemoteTimeline:
    """The clocks and streams over there, as far as a program may know and move them: what :mod:`..ordering.streams` and
    the device's module ask of a :class:`gapless.vgpu.Timeline`."""

    recording = None
    in_operator = False
    DEFAULT_STREAM = 7

    def __init__(self, link: Link):
        self._link = link
        self.counted: Callable[[], int] | None = None
        self.wait_hooks: list = []
        self.concurrent = False  # whether there is a second stream
        self.capture: RemoteCapture | None = None  # while one is under way
        self.capture_stream: RemoteStream | None = None  # that of graphs which are given none
        self._current = default = RemoteStream(link, self.DEFAULT_STREAM)
        self.streams: weakref.WeakValueDictionary[int, RemoteStream] = weakref.WeakValueDictionary({default.number: default})
        self._default = default

    @property
    def host_ns(self) -> int:
        """The modelled host's clock."""
        return self._link.ask("host_ns")

    def host_work(self, ns: int) -> None:
        """The host computes for ``ns``, at least 0."""
        self._link.ask("host_work", int(ns))

    def catch_up(self) -> None:
        """Nothing: what the host has done by itself goes with the next message."""

    def python_work(self, name: str, ns: int) -> None:
        """A Python function takes the host ``ns``."""
        self.host_work(ns)

    def annotate(self, name: str, start_ns: int) -> None:
        """Record the block ``name`` of a ``DataLoader`` from ``start_ns`` until now."""
        self._link.ask("loader_block", name, start_ns)

    def forget_due(self) -> None:
        """Nothing: what is due is known over there."""

    def synchronize_device(self) -> None:
        """``cudaDeviceSynchronize``."""
        self._link.ask("synchronize_device")

    @property
    def current(self) -> RemoteStream:
        """The stream that work goes to."""
        return self._current

    @current.setter
    def current(self, stream: RemoteStream) -> None:
        if stream is not self._current:
            self._link.ask("use_stream", stream.kept)
            self._current = stream

    def is_captured(self, stream: RemoteStream) -> bool:
        """Whether work of ``stream`` is captured."""
        return self.capture is not None and self._link.ask("is_captured", stream.kept)

    def back_to(self, number: int) -> None:
        """The device's side has chosen the stream of that number."""
        self._current = self.streams.get(number, self._default)

    def new_stream(self) -> RemoteStream:
        """A further stream."""
        self.concurrent = True
        stream = RemoteStream(self._link, *self._link.ask("new_stream"))
        self.streams[stream.number] = stream
        return stream

    def record_event(self, stream: RemoteStream | None = None) -> RemoteMark:
        """The end of the work queued in ``stream`` so far."""
        return RemoteMark(self._link, *self._link.ask("record_event", (stream or self._current).kept))

    def stream_wait_event(self, mark: RemoteMark, stream: RemoteStream | None = None) -> None:
        """Work queued in ``stream`` from now on starts no sooner than ``mark``."""
        self._link.ask("stream_wait_event", mark.kept, (stream or self._current).kept)

    def synchronize_event(self, mark: RemoteMark) -> None:
        """``cudaEventSynchronize``."""
        self._link.ask("synchronize_event", mark.kept)

    def synchronize_stream(self, stream: RemoteStream | None = None) -> None:
        """``cudaStreamSynchronize``."""
        self._link.ask("synchronize_stream", (stream or self._current).kept)

    def query(self, mark: RemoteMark) -> bool:
        """``cudaEventQuery``."""
        return self._link.ask("query", mark.kept)

    def host_learns(self, known: dict[int, int]) -> None:
        """Nothing: what comes before what is known over there."""


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

    @property
    def reserved_bytes(self) -> int:
        """Held by the caching allocator, in use or not."""
        return self._link.ask("reserved_bytes")

    @property
    def free_bytes(self) -> int:
        """What the driver has left."""
        return self.capacity_bytes - self.reserved_bytes

    @property
    def allowed_bytes(self) -> int | None:
        """What the program has limited itself to."""
        return self._link.ask("allowed_bytes")

    def allow(self, nbytes: int) -> None:
        """Limit the program to ``nbytes``."""
        self._link.ask("allow", nbytes)

    def stats(self) -> dict:
        """What the allocator counts."""
        return self._link.ask("memory_stats")

    def snapshot(self) -> list[dict]:
        """The allocator's segments."""
        return self._link.ask("memory_snapshot")

    def reset_peak(self) -> None:
        """Begin new peaks."""
        self._link.ask("reset_peak")

    def reset_accumulated(self) -> None:
        """Count again."""
        self._link.ask("reset_accumulated")

    def empty_cache(self) -> None:
        """Segments that are wholly free go back to the driver."""
        self._link.ask("empty_cache")


