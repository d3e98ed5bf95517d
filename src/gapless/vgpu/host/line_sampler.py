"""At which lines the program is while it is long out of the device.

Another thread looks every millisecond. What comes between two operators and takes less than half of one belongs to the line
of the second; of what takes longer nobody else knows where it was.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter

from ..process import location
from . import host_clock
from .stopwatch import Stopwatch

PERIOD_S = 1e-3
LONG_NS = 500_000  # between two operators


def sampling() -> LineSampler | None:
    """A sampler that looks from now on; None where the host's clock counts."""
    watch = host_clock.clock().work
    if not isinstance(watch, Stopwatch):
        return None
    found = LineSampler(watch)
    found.start()
    return found


class LineSampler:
    """From :meth:`start`, in the thread that is sampled, to :meth:`stop`."""

    def __init__(self, watch: Stopwatch):
        self._watch, self._found = watch, Counter[str]()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True, name="gapless lines")

    def start(self) -> None:
        """Look from now on."""
        self._program, self._interval_s = threading.get_ident(), sys.getswitchinterval()
        sys.setswitchinterval(LONG_NS / 2e9)  # so soon the interpreter lets this thread in
        self._thread.start()

    def found(self) -> dict[str, int]:
        """Line, as :func:`gapless.vgpu.process.location.location` gives it → nanoseconds that it was seen there so far."""
        return dict(self._found)

    def stop(self) -> dict[str, int]:
        """Look no more; what was :meth:`found`."""
        self._ends.set()
        self._thread.join()
        sys.setswitchinterval(self._interval_s)
        return self.found()

    def _look(self) -> None:
        before, seen_ns = None, 0
        while not self._ends.wait(PERIOD_S):
            began, gap_ns = self._watch.gap()
            if gap_ns < LONG_NS:
                continue
            line = location.line_of(sys._current_frames().get(self._program))
            if line is not None and began == self._watch.gap()[0]:  # still the same
                self._found[line] += gap_ns - (seen_ns if began == before else 0)
                before, seen_ns = began, gap_ns
