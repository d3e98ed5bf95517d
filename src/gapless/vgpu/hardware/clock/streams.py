"""In-order queues of device work, and points in them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


class Stream:
    """An in-order queue of device work. ``ready_ns``: when the last work put in ends; ``count``: the timeline's number of
    that launch; ``knows``: stream number → the last launch there that comes before what is put in from now on."""

    __slots__ = ("number", "ready_ns", "pending", "count", "knows", "__weakref__")

    def __init__(self, number: int):
        self.number = number
        self.clear()

    def clear(self) -> None:
        """Forget all work."""
        self.ready_ns = self.count = 0
        self.pending: deque[tuple] = deque()  # (end, begin, engine, share) of what may still run
        self.knows: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Mark:
    """A point in a stream, as an event keeps it: reached at ``ns``, behind ``known`` (stream number → its last launch)."""

    ns: int
    known: dict[int, int]
