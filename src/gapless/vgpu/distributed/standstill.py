"""Processes that wait for each other and will never meet: who waits where, at which line, and that nothing more can come.

Each process of a run writes on a board, a file that all of them have mapped, whether it runs, waits or has ended
(:func:`waiting`). Who waits looks there: a process that it waits for has ended; all wait, each for another that waits
elsewhere; or it has waited for longer than :data:`VARIABLE` says. Then it raises :class:`Standstill`. Without a board, where
another launcher has started the processes, only the last of these is known, and that a process has closed its socket.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from contextlib import contextmanager

BOARD = "GAPLESS_BOARD"  # names the file
VARIABLE = "GAPLESS_WAIT_LIMIT_S"
LIMIT_S = 120.0
_ALL_WAIT_S = 3.0
_SLOT = 1024

RUNS, WAITS, ENDED = "runs", "waits", "ended"


class Standstill(RuntimeError):
    """The processes of a run wait for each other. The message says which waits where, and for whom."""


class Board:
    """A slot for each of ``count`` processes in the file ``path``, which is made where it is missing."""

    def __init__(self, path: str, count: int):
        with open(path, "a+b") as file:
            if os.fstat(file.fileno()).st_size < count * _SLOT:
                file.truncate(count * _SLOT)
            self._map = mmap.mmap(file.fileno(), count * _SLOT)
        self.count = count

    def write(self, rank: int, entry: dict) -> None:
        """What becomes of ``rank``: ``state`` and what goes with it."""
        text = json.dumps(entry).encode()
        if len(text) > _SLOT - 1:
            text = json.dumps({**entry, "where": entry.get("where", "")[:80], "what": entry.get("what", "")[:80]}).encode()
        self._map[rank * _SLOT:(rank + 1) * _SLOT] = text.ljust(_SLOT, b"\0")

    def read(self, rank: int) -> dict:
        """What was written last; {} where nothing was, or is being written."""
        try:
            return json.loads(self._map[rank * _SLOT:(rank + 1) * _SLOT].rstrip(b"\0") or b"{}")
        except ValueError:
            return {}


_board: Board | None = None
_count = 0
_calm: tuple[list, float] | None = None  # what the board said when it last changed, and when


def join() -> None:
    """This process is one of a run with a board, if the environment says so."""
    global _board
    path = os.environ.get(BOARD)
    _board = Board(path, int(os.environ["WORLD_SIZE"])) if path else None


def has_board() -> bool:
    """Whether this process is one of a run with a board."""
    return _board is not None


def leave() -> None:
    """This process has done its part."""
    if _board is not None:
        _board.write(int(os.environ["RANK"]), {"state": ENDED})


@contextmanager
def waiting(what: str, where: str | None, place: str, members: list[int]):
    """Inside, this process waits: in ``what``, at the line ``where``, for the ranks ``members`` to come to ``place``."""
    global _count
    if _board is None:
        yield
        return
    rank, _count = int(os.environ["RANK"]), _count + 1
    _board.write(rank, {"state": WAITS, "what": what, "where": where or "", "place": place, "members": members,
                        "count": _count})
    try:
        yield
    finally:
        _board.write(rank, {"state": RUNS, "count": _count})


def limit_s() -> float:
    """How many real seconds a process waits for the others."""
    try:
        limit = float(os.environ.get(VARIABLE, LIMIT_S))
        if limit > 0:
            return limit
        raise ValueError("no time")
    except ValueError:
        raise ValueError(f"{VARIABLE} is {os.environ[VARIABLE]!r}: give it seconds, more than 0, or inf") from None


def look(waited_s: float, what: str, where: str | None, missing: list[int]) -> None:
    """Can the ranks ``missing`` still come? Raises Standstill where they cannot, or where this one has waited too long."""
    mine = f"rank {os.environ.get('RANK', '?')} waits in {what} at {where or 'a line that is not known'}"
    if _board is not None:
        entries = [_board.read(rank) for rank in range(_board.count)]
        gone = [rank for rank in missing if entries[rank].get("state") == ENDED]
        if gone:
            raise Standstill(f"{mine} for {ranks(gone)}, which {'has' if len(gone) == 1 else 'have'} ended. Every rank must "
                             "call the same collectives, and as often: with DistributedDataParallel as many batches on each")
        if _stands_still(entries):
            lines = [f"rank {rank} " + (f"waits in {entry['what']} at {entry['where'] or 'a line that is not known'}"
                                        if entry["state"] == WAITS else "has ended") for rank, entry in enumerate(entries)]
            raise Standstill("all ranks wait for each other: " + "; ".join(lines) + ". Every rank must call the same "
                             "collectives in the same order")
    if waited_s > limit_s():
        raise Standstill(f"{mine} for {ranks(missing)}, and has for {limit_s():g} real seconds. What keeps "
                         f"{ranks(missing)}? If it only needs longer, set {VARIABLE} to more seconds")


def _stands_still(entries: list[dict]) -> bool:
    """Whether nothing has changed on the board for a while, with all processes waiting or at their end."""
    global _calm
    if _calm is None or _calm[0] != entries:
        _calm = entries, time.monotonic()
    if not all(entry.get("state") in (WAITS, ENDED) for entry in entries):
        return False
    for entry in entries:
        if entry["state"] == WAITS and all(entries[rank].get("place") == entry["place"] for rank in entry["members"]):
            return False  # all that it waits for have come
    return time.monotonic() - _calm[1] > _ALL_WAIT_S


def ranks(numbers: list[int]) -> str:
    """``rank 1``, ``ranks 1, 2``."""
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
