"""Reading what an untrusted process left behind: JSON, arrays and text, within limits.

Whatever is wrong with a file is one exception, :class:`Unreadable`. Nothing is read in one go before its size is known,
nothing is evaluated, and only plain values and numeric arrays come out. As time and memory grow with the size
alone, the limits on it are limits on them too, and no process of its own is needed. NumPy is needed for arrays only.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

from .files import read_regular

if TYPE_CHECKING:
    import numpy as np

_MOST_DEEP = 64  # containers within each other
_MOST_MEMBERS = 1000
_LONGEST_HEADER = 4096  # bytes, of an array's header
_MEMBER = re.compile(r"[\w.\- ]{1,200}\.npy")
_HEADER = re.compile(r"\{'descr': '([<>|][a-z]\d+)', 'fortran_order': (True|False), "
                     r"'shape': \((\d{1,18}(?:, \d{1,18})*,?)?\), \} *\n")
_DTYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
_MOST_DIMENSIONS = 32
_END, _ZIP64 = b"PK\x05\x06", b"PK\x06\x07"
# What moves a terminal's cursor, reverses a line or stands for nothing; a tab and an end of line may stay.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Unreadable(ValueError):
    """It is missing, damaged, too large or not of the agreed form; the message begins with "cannot be read: "."""

    def __init__(self, why: str):
        super().__init__(f"cannot be read: {why}")


def read_json(path: str | os.PathLike, limit_bytes: int = 16 * 2**20, limit_items: int = 2_000_000, allow_nan: bool = False):
    """The JSON value in a file, which may be packed by gzip; ``limit_bytes`` are for the packed and for the unpacked file.

    ``limit_items``: of its lists and objects, all together. Numbers that are not finite are refused unless ``allow_nan``;
    lone surrogates in texts are replaced. Raises Unreadable.
    """
    try:
        return _parse_json(_unpacked(read_regular(path, limit_bytes, False, own=True), limit_bytes), limit_items, allow_nan)
    except (OSError, ValueError, RecursionError, zlib.error) as error:
        raise _unreadable(path, error) from None


def read_arrays(path: str | os.PathLike, limit_bytes: int = 2**30) -> dict[str, np.ndarray]:
    """The arrays in a file as ``np.savez`` writes it: name → array of numbers or truth values, which may be written to.

    Compressed files are refused. ``limit_bytes`` are for the file, and again for all arrays together. Raises Unreadable.
    """
    try:
        return _parse_arrays(read_regular(path, min(limit_bytes, 2**32 - 2), False, own=True), limit_bytes)
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, struct.error, zipfile.BadZipFile,
            zlib.error) as error:
        raise _unreadable(path, error) from None


def clean_text(text: str, limit: int = 4096) -> str:
    """``text`` for showing to people: at most ``limit`` characters, without surrogates and control characters."""
    short = text if len(text) <= limit else text[: max(limit - 2, 0)] + " …"
    return _UNPRINTABLE.sub("\ufffd", short.replace("\r\n", "\n"))


def _name(path: str | os.PathLike) -> str:
    return clean_text(os.path.basename(os.fspath(path)), 200)


def _unreadable(path: str | os.PathLike, error: BaseException) -> Unreadable:
    if isinstance(error, Unreadable):
        return error
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return Unreadable(f"{_name(path)}: {clean_text(why, 500)}")


def _unpacked(content: bytes, limit_bytes: int) -> bytes:
    if content[:2] != b"\x1f\x8b":
        return content
    stream = zlib.decompressobj(wbits=31)
    unpacked = stream.decompress(content, limit_bytes + 1)
    if len(unpacked) > limit_bytes:
        raise ValueError(f"unpacked it is larger than {limit_bytes / 2**20:.3g} MB")
    if not stream.eof or stream.unused_data:
        raise ValueError("it is no whole gzip file")
    return unpacked


def _parse_json(content: bytes, limit_items: int, allow_nan: bool):
    # Each item but a container's first comes after a comma.
    if sum(content.count(each) for each in (b",", b"[", b"{")) > limit_items:
        raise ValueError(f"it holds more than {limit_items} items")

    def constant(name: str):
        if not allow_nan:
            raise ValueError(f"it holds {name}")
        return float(name.replace("Infinity", "inf"))

    value = json.loads(content.decode("utf-8"), parse_constant=constant)
    whole = [value]
    waiting: list[tuple[Any, int]] = [(whole, 0)]
    while waiting:
        container, depth = waiting.pop()
        if depth > _MOST_DEEP:
            raise ValueError(f"it is nested more than {_MOST_DEEP} deep")
        if isinstance(container, dict):
            for key in container:
                if _SURROGATE.search(key):
                    raise ValueError("a name in it is not text")
            pairs = container.items()
        else:
            pairs = enumerate(container)
        for key, each in pairs:
            if isinstance(each, (dict, list)):
                waiting.append((each, depth + 1))
            elif isinstance(each, str):
                if _SURROGATE.search(each):
                    container[key] = _SURROGATE.sub("\ufffd", each)
            elif isinstance(each, float) and not allow_nan and not math.isfinite(each):
                raise ValueError("it holds a number that is not finite")
    return whole[0]


def _parse_arrays(content: bytes, limit_bytes: int) -> dict[str, np.ndarray]:
    # zipfile makes an object of every entry before anything can be asked: the size of its table is looked up first.
    if content[-22:-18] != _END or content[-2:] != b"\0\0" or content[-42:-38] == _ZIP64:
        raise ValueError("it is no file of np.savez")
    table_bytes, = struct.unpack("<I", content[-10:-6])
    if table_bytes > _MOST_MEMBERS * 256:
        raise ValueError(f"it holds more than {_MOST_MEMBERS} arrays")
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if len(members) > _MOST_MEMBERS:
            raise ValueError(f"it holds more than {_MOST_MEMBERS} arrays")
        if sum(member.file_size for member in members) > limit_bytes:
            raise ValueError(f"its arrays are larger than {limit_bytes / 2**20:.3g} MB")
        for member in members:
            name = member.filename
            if not _MEMBER.fullmatch(name) or name[:-4] in arrays:
                raise ValueError("an array in it has no name of its own")
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
                raise ValueError("an array in it is compressed or encrypted")
            with archive.open(member) as file:
                stored = bytearray(file.read(member.file_size))
            arrays[name[:-4]] = _parse_array(stored)
    return arrays


def _parse_array(stored: bytearray) -> np.ndarray:
    import numpy as np

    if stored[:6] != b"\x93NUMPY" or stored[6:8] not in (b"\1\0", b"\2\0"):
        raise ValueError("an array in it is not in NumPy's format 1 or 2")
    start = 10 if stored[6] == 1 else 12
    length = int.from_bytes(stored[8:start], "little")
    if length > _LONGEST_HEADER:
        raise ValueError("an array's header is too long")
    header = _HEADER.fullmatch(stored[start : start + length].decode("latin-1"))
    if header is None or header[1][1:] not in _DTYPES:
        raise ValueError("an array in it is not one of numbers")
    shape = tuple(int(each) for each in re.findall(r"\d+", header[3] or ""))
    dtype = np.dtype(header[1])
    if len(shape) > _MOST_DIMENSIONS or len(stored) - start - length != math.prod(shape) * dtype.itemsize:
        raise ValueError("an array's shape does not fit its size")
    data = memoryview(stored)[start + length :]
    if dtype.kind == "b" and np.any(np.asarray(data) > 1):
        raise ValueError("a truth value in it is neither true nor false")
    return np.ndarray(shape, dtype, data, order="F" if header[2] == "True" else "C")
