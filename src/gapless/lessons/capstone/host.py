"""Lesson 10: what the programs call that stands for the host's own work.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ...measure.device import host_work, synchronize

__all__ = ["decode", "decoded", "forget_decoded", "measured_on", "synchronize"]

DECODE_MS = 1.0  # of the host for a record: an assumption
_SLOTS, _WIDTH = 4096, 8
_counts = mmap.mmap(-1, _SLOTS * _WIDTH)  # shared with the processes forked since; each counts in a place of its own


_measured: list[tuple[torch.device, float]] = []  # what the program is asked on, while it is


@contextmanager
def measured_on(device: torch.device, decode_ms: float = DECODE_MS) -> Iterator[None]:
    """Inside, decoding takes ``decode_ms`` beside ``device``, whatever device it gets."""
    _measured.append((device, decode_ms))
    try:
        yield
    finally:
        _measured.pop()


def decode(record: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``record`` as it is, after ``DECODE_MS`` of the host's time: stands for reading and decoding a file. Where ``device``
    is the CPU nobody measures, and it takes no time."""
    device, decode_ms = _measured[-1] if _measured else (device, DECODE_MS)
    place = os.getpid() % _SLOTS * _WIDTH
    struct.pack_into("q", _counts, place, struct.unpack_from("q", _counts, place)[0] + 1)
    if device.type != "cpu":
        host_work(decode_ms, device)
    return record


def forget_decoded() -> None:
    """Count again what is decoded: in memory that no process shares which was forked before."""
    global _counts
    _counts = mmap.mmap(-1, _SLOTS * _WIDTH)


def decoded() -> int:
    """How many records were decoded since then, here and in the processes forked from this one."""
    return sum(struct.unpack(f"{_SLOTS}q", _counts[:]))
