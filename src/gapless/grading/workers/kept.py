"""A worker that outlives a grading, for a server that is asked for one submission now and then: the formgrader's button.

To start one takes seconds, as it imports PyTorch and starts the servers of a grading.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor
from pathlib import Path

from .pool import LocalWorkers

IDLE_SECONDS = 180.0  # after which it ends: it has about a gigabyte of memory


class KeptWorker(LocalWorkers):
    """One process, kept from one use as a context to the next, for ``idle_seconds``. It ends with this process at the
    latest, after a use that raised, and where a file of this package has changed, which it may have imported."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS):
        super().__init__(1)
        self._idle_seconds = idle_seconds
        self._kept: Executor | None = None
        self._state: tuple = ()
        self._timer: threading.Timer | None = None
        self._changing = threading.RLock()

    def begin(self) -> Executor:
        with self._changing:
            self._forget_timer()
            state = _package_state()
            if self._kept is not None and (state != self._state or getattr(self._kept, "_broken", False)):
                self.close()
            if self._kept is None:
                self._kept, self._state = super().begin(), state
            return self._kept

    def end(self, at_once: bool = False) -> None:
        with self._changing:
            if at_once:
                self.close(at_once=True)
            elif self._kept is not None:
                self._forget_timer()
                self._timer = threading.Timer(self._idle_seconds, self._close_idle)
                self._timer.daemon = True  # no reason to go on
                self._timer.start()

    def close(self, at_once: bool = False) -> None:
        """End it. ``at_once``: and what it is at; else it clears up."""
        with self._changing:
            self._forget_timer()
            kept, self._kept = self._kept, None
            if kept is not None:
                self.executor = kept
                super().end(at_once)

    @property
    def is_there(self) -> bool:
        return self._kept is not None

    def _close_idle(self) -> None:
        with self._changing:
            if self._timer is threading.current_thread():  # else it is in use again
                self.close()

    def _forget_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def _package_state() -> tuple:
    """Differs where a file of this package was changed, added or removed."""
    files = sorted(Path(__file__).parents[2].rglob("*.py"))
    return tuple((str(path), path.stat().st_mtime_ns) for path in files)
