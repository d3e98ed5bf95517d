"""Messages between a program's process and the device's: JSON and raw bytes, nothing that could carry behaviour.

A frame is two lengths (uint32, little-endian), a JSON text and the bytes that it refers to. Besides JSON's own types a
value can be ``{"tensor": …}`` (a tensor of the device), ``{"host": …}`` (a CPU tensor with its bytes), ``{"held": number}``
(one that the other side has already), ``{"dtype": name}``, ``{"device": name}``, ``{"layout": name}``, ``{"memory_format":
name}``, ``{"complex": [re, im]}`` or ``{"dict": {…}}``. Tuples arrive as lists.
"""

from __future__ import annotations

import json
import socket
import struct

import torch

from ..ordering.pinned import pin

_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_HEADER = struct.Struct("<II")
LARGEST_TEXT_BYTES = 64 * 2**20
LARGEST_BLOB_BYTES = 2**31
_PLAIN = frozenset({type(None), bool, int, float, str})
_NAMED = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}


class WireError(Exception):
    """What came is not of the agreed form."""


class Channel:
    """One end of a connected stream socket. Not for several threads at once."""

    def __init__(self, end: socket.socket):
        self._socket = end
        self._file = end.makefile("rb", buffering=1 << 16)

    def send(self, message, blob: bytes | bytearray = b"") -> None:
        """Raises OSError where the other side is gone, ValueError for what is no JSON or too large."""
        text = _ENCODE(message).encode()
        if len(text) > LARGEST_TEXT_BYTES or len(blob) > LARGEST_BLOB_BYTES:
            raise ValueError("the message is too large")
        self._socket.sendall(_HEADER.pack(len(text), len(blob)) + text if not blob else
                             b"".join((_HEADER.pack(len(text), len(blob)), text, blob)))

    def receive(self) -> tuple[dict, bytes]:
        """The next message and its bytes. Raises EOFError where the other side has ended, WireError for anything that is no
        frame, OSError."""
        text_length, blob_length = _HEADER.unpack(self._read(_HEADER.size))
        if text_length > LARGEST_TEXT_BYTES or blob_length > LARGEST_BLOB_BYTES:
            raise WireError("a message is too large")
        text, blob = self._read(text_length), self._read(blob_length) if blob_length else b""
        try:
            return json.loads(text), blob
        except (ValueError, RecursionError) as error:
            raise WireError(f"a message is no JSON: {error}") from None

    def _read(self, count: int) -> bytes:
        found = self._file.read(count)
        if len(found) < count:
            raise EOFError("the other side has ended")
        return found

    def close(self) -> None:
        """Close this end; the other sees the end of the messages."""
        self._file.close()
        self._socket.close()


class Encoder:
    """Makes values JSON. ``tensor(value, encoder)`` says what stands for a tensor. ``blob``: the bytes so far."""

    def __init__(self, tensor):
        self._tensor = tensor
        self.blob = bytearray()

    def __call__(self, value):
        """``value`` in JSON's types. Raises WireError for what has no form."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is list or kind is tuple or kind is torch.Size:
            return [self(item) for item in value]
        if isinstance(value, torch.Tensor):
            return self._tensor(value, self)
        name = _NAMED.get(kind)
        if name is not None:
            return {name: str(value).removeprefix("torch.")}
        if kind is torch.device:
            return {"device": value.type}
        if kind is dict and all(type(key) is str for key in value):
            return {"dict": {key: self(item) for key, item in value.items()}}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if isinstance(value, (bool, int, float, str)):  # an enum, a subclass
            return next(base(value) for base in (bool, int, float, str) if isinstance(value, base))
        raise WireError(f"a {kind.__name__}")

    def host(self, value: torch.Tensor, *, pinned: bool = False, values: bool = True):
        """A CPU tensor, with its bytes unless without ``values``; or a meta tensor, which has none."""
        strides, start = list(value.stride()), len(self.blob)
        values = values and not value.is_meta
        if values:
            self.blob += bytes_of(value.detach().resolve_conj().resolve_neg())
        return {"host": [list(value.shape), strides, str(value.dtype).removeprefix("torch."), pinned,
                         start if values else None]}


def bytes_of(value: torch.Tensor) -> memoryview:
    """The elements of a CPU tensor, side by side."""
    if not value.numel():
        return memoryview(b"")
    dense = value.detach().contiguous()  # one element may have any stride all the same
    return dense.as_strided((dense.numel(),), (1,)).view(torch.uint8).numpy().data


class Decoder:
    """Makes values of JSON. ``tensor``: from what stands for a tensor of the device to that tensor; ``held``: from the
    number of a CPU tensor that is here to it; ``device``: from a name (``cpu``, ``meta``, anything else) to a device."""

    def __init__(self, tensor, device, blob: bytes = b"", held=None):
        self._tensor, self._device, self._blob, self._held = tensor, device, blob, held
        self.pinned: list[torch.Tensor] = []  # the CPU tensors found that lie in pinned memory, there and here

    def __call__(self, value):
        """The value. Raises WireError."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is list:
            return [self(item) for item in value]
        try:
            (tag, content), = value.items()
            if tag == "tensor":
                return self._tensor(content)
            if tag == "host":
                return self._host(*content)
            if tag == "held" and self._held is not None:
                self.pinned.append(self._held(content))
                return self.pinned[-1]
            if tag == "device":
                return self._device(content)
            if tag == "dict":
                return {str(key): self(item) for key, item in content.items()}
            if tag == "complex":
                return complex(float(content[0]), float(content[1]))
            if tag in ("dtype", "layout", "memory_format"):
                found = getattr(torch, content)
                if type(found) is getattr(torch, tag):
                    return found
        except (TypeError, ValueError, AttributeError, KeyError, IndexError, RuntimeError) as error:
            raise WireError(f"a value cannot be read: {error}") from None
        raise WireError("a value cannot be read")

    def _host(self, shape, strides, dtype, pinned, start) -> torch.Tensor:
        dtype = getattr(torch, dtype)
        made = torch.empty_strided(shape, strides, dtype=dtype)
        if start is not None and made.numel():
            nbytes = made.numel() * made.element_size()
            content = self._blob[start:start + nbytes]
            if len(content) < nbytes or start < 0:
                raise ValueError("a tensor is cut off")
            dense = torch.frombuffer(bytearray(content), dtype=dtype).reshape(shape)
            # Elements that share their memory (an expanded tensor) are apart here.
            made = dense if dense.stride() == made.stride() or 0 in made.stride() else made.copy_(dense)
        if not pinned:
            return made
        self.pinned.append(pin(made))
        return self.pinned[-1]
