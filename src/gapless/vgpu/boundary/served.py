"""The device's end of a program in another process (:mod:`.link` is the other end).

Here are the values, the clock, the card and the recording. What comes from the other side is read as from an enemy: an
operator of PyTorch's on tensors that it was given or made itself, or one of the few questions in ``_QUESTIONS``. Nothing
that it says is taken to be true.
"""

# mypy: disable-error-code="arg-type, return-value"
# The far side's timeline, memory and tensors stand where this process's own would.
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import torch

from ..compiling import regions
from ..compiling.graphs import Captured, abandon
from ..core.dispatch import dispatch
from ..core.storage import VirtualStorage, resize, whole
from ..core.tensor import VirtualTensor, lying_in
from ..hardware.clock.streams import Mark, Stream
from ..hardware.clock.timeline import Timeline
from ..host import host_clock
from ..ordering import pinned
from ..process.state import DEVICE, state
from . import served_groups
from .switches import switch, switched
from .wire import Channel, Decoder, Encoder, WireError

_SPACES = ("aten", "prims")
# Operators that reach for more than tensors.
_REFUSED = frozenset({"aten::from_file", "aten::set_.source_Storage", "aten::set_.source_Storage_storage_offset"})
_LINE = re.compile(r"(cell \"\w{1,80}(?:\.py)?\"|notebook cell|[\w./<>\- ]{1,300})\(\d{1,7}\): [\w<>. ]{1,160}")
_NAME = re.compile(r"\w{1,80}::\w{1,80}(\.\w{1,80})?")
_LOADER_BLOCK = re.compile(r"enumerate\(DataLoader\)#\w{1,80}\.__next__")
_MOST_TENSORS = 1_000_000
_MOST_HOST_NS = 10**13


class Gone(Exception):
    """The other side has ended, or said something that is not of the agreed form; the argument says which."""


class _Graph:
    """An operator that waits for its backward pass."""

    def __init__(self, outs: list, leaves: list):
        self.outs, self.leaves = outs, leaves


@dataclass
class _Host:
    """CPU memory of the program's, as it is here, whose ``copies`` from or to the device are under way."""

    tensor: torch.Tensor
    copies: list
    to_host: bool

    @property
    def is_done(self) -> bool:
        return all(copy.done for copy in self.copies)


class Served:
    """A program at the other end of ``channel``, and the tensors that it may name. ``note`` is called with what the program
    says that is neither an operator nor a question, such as a logged line."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self._things: dict[int, VirtualTensor | _Graph | Mark | Stream | _Host | Captured] = {}
        self._under_way: dict[int, _Host] = {}  # those of them of which the program has not been told the end
        self._forms: dict[int, list] = {}  # what the other side knows of a tensor
        self._given: dict[int, int] = {}  # of the message being answered: id of a tensor → its number
        self._operators: dict[str, object] = {}
        self._next = 0
        self._line: str | None = None
        self._settings: list | None = None  # the program's
        self.note: Callable[[object], None] = lambda said: None

    def close(self) -> None:
        """Let the program see the end."""
        self._channel.close()

    def tell(self, tensor: VirtualTensor) -> dict:
        """What tells the program of a tensor; from then on it may use it."""
        return {"tensor": self._spec(tensor)}

    def request(self, message: dict, values: dict | None = None) -> tuple[dict, bytes]:
        """Send ``message`` and do what the program asks for until it answers: its answer, with ``return`` or ``raise``, and
        the bytes that belong to it. ``values``: name → a tensor of the device or of the host, or a list or dict of them,
        sent along. Raises Gone. While something is measured, what the program's host does is on the clock, and not what
        this side does; and PyTorch's switches are the program's only until it answers."""
        with host_clock.uncounted(), switched(self._settings):
            return self._request(message, values or {})

    def _request(self, message: dict, values: dict) -> tuple[dict, bytes]:
        timeline = state.timeline
        locate, timeline.locate = timeline.locate, lambda: self._line
        recording = timeline.recording
        try:
            encoder = Encoder(self._value)
            message = {**message, **{name: encoder(value) for name, value in values.items()}}
            self._channel.send({**message, "valueless": state.shape_only is not None, "stream": timeline.current.number,
                                "counts": timeline.counted is not None, "records": recording is not None,
                                "lines": (recording is not None and recording.lines) or bool(timeline.wait_hooks),
                                **self._arrivals(encoder)}, encoder.blob)
            while True:
                said, blob = self._channel.receive()
                try:
                    self._take_news(said)
                except (TypeError, ValueError) as error:
                    raise WireError(str(error)) from None
                if "return" in said or "raise" in said:
                    return said, blob
                if "note" in said:
                    self.note(said["note"])
                else:
                    self._answer(said, blob)
        except (OSError, EOFError) as error:
            raise Gone(str(error)) from None
        except WireError as error:
            raise Gone(f"it sent what cannot be read ({error})") from None
        finally:
            regions.left()
            abandon()  # what the program has not ended
            timeline.locate = locate
            self._given.clear()

    def decoder(self, blob: bytes = b"") -> Decoder:
        """Reads values that the program has sent."""
        return Decoder(self._tensor, _device, blob, self._held)

    # -- what the program asks for --------------------------------------------------------------

    def _answer(self, said: dict, blob: bytes) -> None:
        line = said.get("line")
        self._line = line if isinstance(line, str) and _LINE.fullmatch(line) else None
        self._given.clear()
        encoder = Encoder(self._result)
        kinds = [kind for kind in _MESSAGES if kind in said]
        if len(kinds) != 1:
            raise WireError("an unknown message")
        try:
            reply = _MESSAGES[kinds[0]](self, said, blob, encoder)
        except WireError:
            raise
        except Exception as error:
            # What PyTorch raises in C++ comes with its own stack, of use to nobody.
            text = str(error).partition("\nException raised from")[0][:4000]
            reply, encoder = {"error": [_kind(error), text]}, Encoder(self._result)
        self._channel.send({**reply, **self._arrivals(encoder)}, encoder.blob)

    def _operator(self, said: dict, blob: bytes, encoder: Encoder) -> dict:
        func, decode = self._find(said["op"]), self.decoder(blob)
        args, kwargs = tuple(_list(decode(said.get("args")))), self._keywords(said, decode)
        generator = None
        if "generator" in said:
            generator = torch.Generator(device=DEVICE)
            generator.set_state(decode(said["generator"]))
            place = next((place for place, each in enumerate(func._schema.arguments) if each.name == "generator"), None)
            if place is not None and place < len(args):
                args = (*args[:place], generator, *args[place + 1:])
            else:
                kwargs["generator"] = generator
        with torch.no_grad():
            out = dispatch(func, args, kwargs)
        reply = {"out": encoder(out)}
        hosts = list(enumerate(decode.pinned))
        if isinstance(out, torch.Tensor) and not isinstance(out, VirtualTensor) and pinned.is_pinned(out):
            hosts.append((None, out))
        under_way = [found for place, host in hosts if (found := self._watch(place, host)) is not None]
        if under_way:
            reply["under_way"] = under_way
        if generator is not None:
            reply["generator"] = encoder.host(generator.get_state())
        if func._schema.is_mutable:
            # `copy_` into memory of the host, which is over there.
            if args and out is args[0] and isinstance(out, torch.Tensor) and not isinstance(out, VirtualTensor):
                reply["written"] = True
            moved = [(number, self._spec(self._things[number])) for number in list(self._given.values())
                     if _form(self._things[number]) != self._forms[number]]
            if moved:
                reply["moved"] = moved
        return reply

    def _fused(self, said: dict, blob: bytes, encoder: Encoder) -> dict:
        func, wanted, leaves = self._find(said["fused"]), _list(said.get("wanted")), []

        def leaf(number) -> VirtualTensor:
            # One for each place, as a tensor that is there twice has a gradient for each.
            tensor = self._tensor(number)
            leaves.append(lying_in(tensor.allocation, tensor.within).requires_grad_(len(leaves) in wanted))
            return leaves[-1]

        decode = Decoder(leaf, _device, blob, self._held)
        with torch.enable_grad():
            out = func(*_list(decode(said.get("args"))), **self._keywords(said, decode))
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        plain = [lying_in(each.allocation, each.within) for each in outs]
        graph = self._keep(_Graph(outs, [each for each in leaves if each.requires_grad]))
        return {"graph": graph, "out": encoder(plain if isinstance(out, (list, tuple)) else plain[0])}

    def _backward(self, number: int, grads: list, keep: bool) -> list:
        graph = self._things.get(number)
        if not isinstance(graph, _Graph):
            raise WireError("a graph that is not there")
        present = [(out, grad) for out, grad in zip(graph.outs, _list(grads), strict=True)
                   if isinstance(grad, torch.Tensor) and out.requires_grad]
        if not present or not graph.leaves:
            return [None] * len(graph.leaves)
        return list(torch.autograd.grad([out for out, _ in present], graph.leaves, [grad for _, grad in present],
                                        retain_graph=bool(keep), allow_unused=True))

    def _question(self, said: dict, blob: bytes, encoder: Encoder) -> dict:
        question = _QUESTIONS.get(said["ask"]) if isinstance(said["ask"], str) else None
        if question is None:
            raise WireError("an unknown question")
        return {"out": encoder(question(self, *_list(self.decoder(blob)(said.get("args")))))}

    # -- copies that do not block ---------------------------------------------------------------

    def _watch(self, place: int | None, host: torch.Tensor):
        """What tells the program that copies from or to ``host`` (its ``place`` among the pinned arguments; None: the
        result) are under way."""
        block = pinned.block_of(host)
        copies = [copy for copy in block.copies if not copy.done] if block is not None else []
        if not copies or any(host is known.tensor and known.copies == copies for known in self._under_way.values()):
            return None
        found = _Host(host, copies, any(copy.to_host for copy in copies))
        number = self._keep(found)
        self._under_way[number] = found
        return place, number, found.to_host

    def _arrivals(self, encoder: Encoder) -> dict:
        """What tells the program which copies are done, with what has come into its memory."""
        done = [(number, host) for number, host in self._under_way.items() if host.is_done]
        for number, _ in done:
            del self._under_way[number]
        if not done:
            return {}
        return {"arrived": [[number, encoder.host(host.tensor) if host.to_host else None] for number, host in done]}

    def _held(self, number) -> torch.Tensor:
        host = self._things.get(number) if type(number) is int else None
        if not isinstance(host, _Host):
            raise WireError("memory that is not there")
        return host.tensor

    # -- names ----------------------------------------------------------------------------------

    def _find(self, name):
        """Raises NotImplementedError for an operator that is not for programs, WireError for what is none."""
        func = self._operators.get(name) if isinstance(name, str) else None
        if func is None:
            space, _, rest = str(name).partition("::")
            packet, _, overload = rest.partition(".")
            if name in _REFUSED or (space not in _SPACES and _NAME.fullmatch(str(name))):
                raise NotImplementedError(f"{name}: this device has PyTorch's own operators on tensors, and no others")
            if space in _SPACES:
                func = getattr(getattr(getattr(torch.ops, space), packet, None), overload or "default", None)
            if not isinstance(func, torch._ops.OpOverload):
                raise WireError("no operator")
            self._operators[name] = func
        return func

    def _keywords(self, said: dict, decode: Decoder) -> dict:
        found = said.get("kwargs") or {}
        if not isinstance(found, dict):
            raise WireError("no keyword arguments")
        return {name: decode(value) for name, value in found.items()}

    def _keep(self, thing) -> int:
        if len(self._things) >= _MOST_TENSORS:
            raise RuntimeError(f"more than {_MOST_TENSORS:,} tensors at once")
        self._next += 1
        self._things[self._next] = thing
        return self._next

    def _tensor(self, number) -> VirtualTensor:
        tensor = self._things.get(number) if type(number) is int else None
        if not isinstance(tensor, VirtualTensor):
            raise WireError("a tensor that is not there")
        self._given[id(tensor)] = number
        return tensor

    def _result(self, tensor: torch.Tensor, encoder: Encoder) -> dict:
        if not isinstance(tensor, VirtualTensor):
            return encoder.host(tensor, pinned=pinned.is_pinned(tensor))
        number = self._given.get(id(tensor))
        return {"tensor": number} if number is not None else self.tell(tensor)

    def _value(self, tensor: torch.Tensor, encoder: Encoder) -> dict:
        if isinstance(tensor, VirtualTensor):
            return self.tell(tensor)
        return encoder.host(tensor, pinned=pinned.is_pinned(tensor), values=state.shape_only is None)

    def _spec(self, tensor: VirtualTensor) -> list:
        number = self._keep(tensor)
        form = self._forms[number] = _form(tensor)
        return [number, *form, tensor.within.is_meta, tensor.is_conj(), tensor.is_neg()]

    def _take_news(self, said) -> None:
        if not isinstance(said, dict):
            raise WireError("a message is no object")
        host_ns = said.pop("host", 0)
        if type(host_ns) is not int or not 0 <= host_ns <= _MOST_HOST_NS:
            raise ValueError("the host's work is no time")
        if state.timeline.counted is not None:
            state.timeline.host_work(host_ns)
        for number in _list(said.pop("changed", [])):
            host = self._things.get(number) if type(number) is int else None
            for copy in host.copies if isinstance(host, _Host) else ():
                copy.tell_change()
        for number in _list(said.pop("free", [])):
            if type(number) is int:
                self._things.pop(number, None)
                self._forms.pop(number, None)
        settings = said.pop("settings", None)
        if settings is not None:
            switch(settings)
            self._settings = settings
        if "place" in said:
            place = said.pop("place")
            regions.told(None if place is None else regions.from_words(place))


_MESSAGES = {"op": Served._operator, "fused": Served._fused, "ask": Served._question}


# -- questions --------------------------------------------------------------------------------------


def _host_work(served: Served, ns: int) -> None:
    if type(ns) is not int or ns < 0:
        raise ValueError("the host's clock goes forward only")
    timeline = state.timeline
    # Who lets the host's clock run while values are on their way here waits for them.
    timeline.polls += any(getattr(getattr(happens, "__self__", None), "to_host", False) for _, _, happens in timeline.due)
    timeline.host_work(ns)


def _loader_block(served: Served, name: str, start_ns: int) -> None:
    if type(start_ns) is not int or not 0 <= start_ns <= state.timeline.host_ns:
        raise ValueError("a block begins before it ends")
    if not isinstance(name, str) or not _LOADER_BLOCK.fullmatch(name):
        raise ValueError("no block of a DataLoader")
    state.timeline.annotate(name, start_ns)


def _allow(served: Served, nbytes: int) -> None:
    if type(nbytes) is not int or not 0 <= nbytes <= state.memory.capacity_bytes:
        raise ValueError("a program allows itself a part of the card's memory")
    state.memory.allow(nbytes)


def _resize_storage(served: Served, number: int, nbytes: int) -> None:
    if type(nbytes) is not int or nbytes < 0:
        raise ValueError("memory has a number of bytes")
    resize(served._tensor(number), nbytes)


def _set(served: Served, number: int, memory: int, offset: int, size: list | None, stride: list | None) -> VirtualTensor:
    target, memory = served._tensor(number), VirtualStorage.of(served._tensor(memory))
    placed = lying_in(target.allocation, target.within)
    return placed.set_(memory) if size is None else placed.set_(memory, offset, size, stride or ())


def _seed(served: Served, seed: int) -> None:
    torch.default_generator.manual_seed(seed)


def _set_random_state(served: Served, new: torch.Tensor) -> None:
    torch.set_rng_state(new)


def _find(served: Served, number, kind: type):
    found = served._things.get(number) if type(number) is int else None
    if not isinstance(found, kind):
        raise WireError(f"a {kind.__name__} that is not there")
    return found


def _stream(served: Served, number: int | None) -> Stream:
    """The stream that is kept under ``number``; None: the default one."""
    return state.timeline.streams[Timeline.DEFAULT_STREAM] if number is None else _find(served, number, Stream)


def _use_stream(served: Served, number: int | None) -> None:
    state.timeline.current = _stream(served, number)


def _new_stream(served: Served) -> list:
    stream = state.timeline.new_stream()
    return [stream.number, served._keep(stream)]


def _record_event(served: Served, number: int | None) -> list:
    mark = state.timeline.record_event(_stream(served, number))
    return [served._keep(mark), mark.ns]


def _region_ends(served: Served, numbers: list) -> None:
    regions.ends([served._tensor(number) for number in _list(numbers)])


def _capture(served: Served, mode: str, pool: list) -> int:
    if not all(type(each) is int for each in pool):
        raise WireError("no token of a pool")
    graph = Captured(is_remote=True)
    graph.begin(mode, tuple(pool))
    return served._keep(graph)


def _collective(served: Served, name: str, tensors: dict, options: dict) -> list | None:
    end = served_groups.collective(name, tensors, options)
    return None if end is None else [served._keep(end), end.ns]


_QUESTIONS: dict[str, Callable] = {
    "join_group": lambda served: served_groups.join_group(),
    "collective": _collective,
    "host_ns": lambda served: state.timeline.host_ns,
    "host_work": _host_work,
    "loader_block": _loader_block,
    "synchronize_device": lambda served: state.timeline.synchronize_device(),
    "capacity_bytes": lambda served: state.memory.capacity_bytes,
    "allocated_bytes": lambda served: state.memory.allocated_bytes,
    "peak_bytes": lambda served: state.memory.peak_bytes,
    "reserved_bytes": lambda served: state.memory.reserved_bytes,
    "allowed_bytes": lambda served: state.memory.allowed_bytes,
    "memory_stats": lambda served: state.memory.stats(),
    "memory_snapshot": lambda served: state.memory.snapshot(),
    "reset_peak": lambda served: state.memory.reset_peak(),
    "reset_accumulated": lambda served: state.memory.reset_accumulated(),
    "empty_cache": lambda served: state.memory.empty_cache(),
    "allow": _allow,
    "data_ptr": lambda served, number: served._tensor(number).data_ptr(),
    "bytes": lambda served, number: whole(served._tensor(number)),
    "resize_storage": _resize_storage,
    "set": _set,
    "backward": Served._backward,
    "use_stream": _use_stream,
    "new_stream": _new_stream,
    "record_event": _record_event,
    "stream_wait_event": lambda served, mark, number: state.timeline.stream_wait_event(_find(served, mark, Mark),
                                                                                       _stream(served, number)),
    "synchronize_event": lambda served, mark: state.timeline.synchronize_event(_find(served, mark, Mark)),
    "synchronize_stream": lambda served, number: state.timeline.synchronize_stream(_stream(served, number)),
    "query": lambda served, mark: state.timeline.query(_find(served, mark, Mark)),
    "capture": _capture,
    "end_capture": lambda served, graph: _find(served, graph, Captured).end(),
    "replay": lambda served, graph: _find(served, graph, Captured).replay(),
    "is_captured": lambda served, stream: state.timeline.is_captured(_stream(served, stream)),
    "record_stream": lambda served, number, stream: served._tensor(number).record_stream(
        SimpleNamespace(stream_id=int(stream))),
    "region_ends": _region_ends,
    "seed": _seed,
    "random_state": lambda served: torch.get_rng_state(),
    "set_random_state": _set_random_state,
}


# -- small things -----------------------------------------------------------------------------------


def _form(tensor: VirtualTensor) -> list:
    return [list(tensor.shape), list(tensor.stride()), tensor.storage_offset(), str(tensor.dtype).removeprefix("torch.")]


def _list(value) -> list:
    if not isinstance(value, list):
        raise WireError("no list")
    return value


def _kind(error: Exception) -> str:
    return "OutOfMemoryError" if isinstance(error, torch.OutOfMemoryError) else type(error).__name__


def _device(name) -> torch.device:
    return torch.device(name) if name in ("cpu", "meta") else DEVICE
