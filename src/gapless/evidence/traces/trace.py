"""Kineto traces: the JSON that PyTorch's profiler writes, read and written.

A trace from a real GPU and one from the modelled GPU have the same form, so
everything downstream reads :class:`Trace` and asks no further.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from . import storage

_GZIP_MAGIC = b"\x1f\x8b"
_EXPORT_HINT = "export one with `prof.export_chrome_trace(path)`"

# Kineto renamed its categories over the years; lower case brings the oldest in line.
_CATEGORIES = {
    "cpu_op": "op",
    "operator": "op",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "hip_runtime": "runtime",
    "runtime": "runtime",
    "driver": "runtime",
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "user_annotation": "annotation",
    "python_function": "python",
}


# A line as Kineto writes it.
_NAME = re.compile(r'^(\s*"ph": "\w", "cat": "\w+", "name": ")(.*)(", "pid": )', re.MULTILINE)


def _with_quotes_escaped(text: str) -> str:
    """A trace in which names of ``record_function`` blocks hold quotation marks, which PyTorch 2.11 writes as they are."""
    return _NAME.sub(lambda found: found[1] + re.sub(r'(?<!\\)"', r'\\"', found[2]) + found[3], text)


class TraceError(ValueError):
    """A file or value that is not a usable trace; the message says what to do next."""


@dataclass(slots=True, eq=False)  # not frozen, which takes three times as long to make: a trace has tens of thousands
class Span:
    """One thing with a beginning and an end.

    ``category`` is one of op, runtime, kernel, memcpy, memset, annotation, python
    or other, whatever the age of the trace. ``thread`` is the pair (process, thread)
    on the host and (device, stream) on the GPU.
    """

    category: str
    name: str
    start_us: float
    end_us: float
    thread: tuple
    args: dict = field(repr=False)

    @property
    def duration_ms(self) -> float:
        """How long it lasted, in milliseconds."""
        return (self.end_us - self.start_us) / 1000.0


class Trace:
    """The events of one profile, and what the file says about them.

    ``events`` are Chrome trace events as dictionaries, with ``ts`` and ``dur`` in
    microseconds; ``metadata`` is every other key of the file.
    """

    def __init__(self, events: list[dict], metadata: dict | None = None) -> None:
        self.events = events
        self.metadata = {} if metadata is None else metadata

    def __getstate__(self) -> dict:
        return {"events": self.events, "metadata": self.metadata}  # spans are read off again, where they are asked for

    def __repr__(self) -> str:
        label = "simulated " if self.simulated else ""
        return f"Trace({len(self.events)} events, {label}{self.device_name})"

    write_tensorboard: ClassVar[Callable[..., Path | str]]  # given from above, by .tensorboard, which knows what a trace is

    @classmethod
    def read(cls, path: str | os.PathLike, *, storage_options: dict | None = None) -> Trace:
        """Read a trace, compressed or not, whatever the file is called.

        ``path``: a file, or a URL: ``s3://bucket/file``, ``gs://``, ``abfs://``, ``http(s)://``, ``memory://``, each with
        fsspec and its package (``pip install 'gapless[cloud]'`` for S3) and their ``storage_options``.
        Raises TraceError where the file is missing, cut short or not a trace, or cannot be reached.
        """
        if not storage.is_url(path) and os.path.isdir(path):
            raise TraceError(f"{path} is a folder; name the trace file inside it, or read all with gapless.read_traces")
        try:
            raw = storage.read(path, storage_options)
        except FileNotFoundError:
            raise TraceError(f"{path} does not exist; check the path, or {_EXPORT_HINT}") from None
        except OSError as error:
            raise TraceError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
        except storage.StorageError as error:
            raise TraceError(str(error)) from error
        return cls.from_bytes(raw, str(path))

    @classmethod
    def from_bytes(cls, raw: bytes, name: str = "this") -> Trace:
        """Take the bytes of a trace file, in gzip or not; ``name`` is for what goes wrong. Raises TraceError."""
        if not raw:
            raise TraceError(f"{name} is empty; record the profile again and {_EXPORT_HINT}")
        if raw.startswith(_GZIP_MAGIC):
            try:
                raw = gzip.decompress(raw)
            except (EOFError, OSError, zlib.error) as error:
                raise TraceError(
                    f"{name} is a gzip file that is damaged or cut short; copy it again"
                ) from error
        try:
            # Kernel names now and then hold stray bytes; they must not hide the rest.
            text = raw.decode("utf-8-sig", errors="replace")
            try:
                value = json.loads(text)
            except ValueError:
                value = json.loads(_with_quotes_escaped(text))
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{name} is not JSON, or only part of it; {_EXPORT_HINT}") from error
        try:
            return cls.from_json(value)
        except TraceError as error:
            raise TraceError(f"{name}: {error}") from None

    def write(self, path: str | os.PathLike, *, storage_options: dict | None = None) -> None:
        """Write the trace, compressed where the name ends in ``.gz``. ``path`` may be a URL as for :meth:`read`.

        The file appears whole or not at all. Raises OSError where the folder cannot be written, TraceError where the URL
        cannot.
        """
        try:
            storage.write(path, storage.compressed_by_name(path, self.to_bytes()), storage_options)
        except storage.StorageError as error:
            raise TraceError(str(error)) from error

    def to_bytes(self, *, compressed: bool = False) -> bytes:
        """What :meth:`write` writes: JSON, an event a line, or that in gzip. The same trace gives the same bytes."""
        # Holistic Trace Analysis looks for "rank": with a space behind it, line by line.
        head = json.dumps({**self.metadata, "traceEvents": []}).removesuffix("]}")
        events = ",\n".join(map(json.JSONEncoder(separators=(",", ":")).encode, self.events))
        raw = f"{head}\n{events}\n]}}\n".encode()
        return gzip.compress(raw, mtime=0) if compressed else raw

    @classmethod
    def from_json(cls, value: Any) -> Trace:
        """Take a parsed file: an object with ``traceEvents``, or a bare list of events.

        Raises TraceError for anything else.
        """
        if isinstance(value, list):
            value = {"traceEvents": value}
        if not isinstance(value, dict) or not isinstance(value.get("traceEvents"), list):
            raise TraceError(f"this JSON has no list `traceEvents`, so it is no trace; {_EXPORT_HINT}")
        events = [event for event in value["traceEvents"] if isinstance(event, dict)]
        return cls(events, {key: item for key, item in value.items() if key != "traceEvents"})

    def to_json(self) -> dict:
        """The trace as the object that goes into the file."""
        return {**self.metadata, "traceEvents": self.events}

    @property
    def device_name(self) -> str:
        """The name of the GPU, measured or modelled."""
        devices = self.metadata.get("deviceProperties")
        if isinstance(devices, list) and devices and isinstance(devices[0], dict):
            return str(devices[0].get("name") or "unknown GPU")
        return "unknown GPU"

    @property
    def simulated(self) -> bool:
        """Whether the times are modelled and not measured."""
        ours = self.metadata.get("gapless")
        return isinstance(ours, dict) and bool(ours.get("simulated"))

    @property
    def uncertainty(self) -> float | None:
        """The share of modelled times on the device that 80 % of measured ones are within; None where times are measured."""
        ours = self.metadata.get("gapless")
        return as_number(ours.get("uncertainty")) if isinstance(ours, dict) else None

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Every event that has a duration, in order of time, outer before inner.

        Events without a usable time are left out.
        """
        spans = [span for span in map(_span, self.events) if span is not None]
        spans.sort(key=lambda span: (span.start_us, -span.end_us))
        return tuple(spans)


def read_traces(folder: str | os.PathLike, pattern: str = "*.json*", *, storage_options: dict | None = None
                ) -> dict[str, Trace]:
    """All traces in a folder or at a URL as for :meth:`Trace.read`: name within the folder → trace, sorted by name.

    ``pattern`` is a shell's; ``**/*.json*`` looks into folders within too. Raises TraceError where there is no such folder
    or no such file, or a file is no trace.
    """
    try:
        found = storage.find(folder, pattern, storage_options)
    except storage.StorageError as error:
        raise TraceError(str(error)) from error
    if not found:
        raise TraceError(f"{folder} holds no file {pattern}; check the folder and the pattern, or {_EXPORT_HINT}")
    return {name: Trace.read(path, storage_options=storage_options) for name, path in found.items()}


def as_number(value: Any) -> float | None:
    """A finite number from a JSON value (some files write times as strings), or None."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _span(event: dict) -> Span | None:
    if event.get("ph") != "X" or (start_us := as_number(event.get("ts"))) is None:
        return None
    duration_us = max(as_number(event.get("dur")) or 0.0, 0.0)
    args = event.get("args")
    return Span(
        category=_CATEGORIES.get(str(event.get("cat", "")).lower(), "other"),
        name=str(event.get("name", "")),
        start_us=start_us,
        end_us=start_us + duration_us,
        # As text: a trace may write the same thread as a number here and a string there.
        thread=(str(event.get("pid", "")), str(event.get("tid", ""))),
        args=args if isinstance(args, dict) else {},
    )
