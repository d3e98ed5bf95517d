"""The time that counts against a limit: what processes compute and rest, and not what they wait for a busy machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

_AT_REST = 0.05  # of the time: who computes less than this sleeps, and does not wait for a processor


class OwnTime:
    """Seconds of processes, which ``look`` updates now and then. They never pass faster than real time, and no slower than
    a fifth of it: nobody waits forever for what shares its processor with too many."""

    SLOWEST = 0.2

    def __init__(self):
        self.seconds = 0.0
        self._looked_at = time.monotonic()
        self._computed: dict[int, float] = {}
        self._has_looked = False

    def look(self, processes: Iterable[psutil.Process], at_once: int = 1) -> float:
        """The seconds so far. ``processes``: those that there are, with what they have started; ``at_once``: how many jobs
        share them."""
        import psutil

        now, before = time.monotonic(), self._computed
        real, self._looked_at = now - self._looked_at, now
        self._computed = {}
        for process in processes:
            with contextlib.suppress(psutil.Error):
                used = process.cpu_times()
                self._computed[process.pid] = used.user + used.system
        # What is new since the last look has computed all that it has since then.
        computed = sum(max(used - before.get(pid, 0.0 if self._has_looked else used), 0.0)
                       for pid, used in self._computed.items()) / max(at_once, 1)
        self._has_looked = True
        self.seconds += real if computed < _AT_REST * real else min(real, max(computed, self.SLOWEST * real))
        return self.seconds
