"""The seconds that a program really takes between two calls of the device: what the measured host's clock follows.

Everything counts that makes it take longer: Python, functions in C, sleeping, files, locks, the garbage collector. Left out
are what the virtual GPU does for itself, and what the way into it costs (:func:`entry_costs_ns`), as an operator's cost on
the host is modelled. In a gap in which the program never gave up its core, only its processor time counts: the rest went to
other processes.

Other Python threads make the program slower where they hold the interpreter. What such a thread does while the virtual GPU
computes is added when it has ended, for as long as the program waited meanwhile.
"""

# mypy: disable-error-code="attr-defined"
# Some systems have no clock for each thread.
from __future__ import annotations

import functools
import statistics
import threading
import time
from contextlib import suppress
from threading import get_ident

import torch

from ..hardware.clock.timeline import Timeline
from ..process.state import DEVICE, state

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # not Linux

    def _times_given_up() -> int:
        return time.perf_counter_ns()  # not known, so that all of a gap counts
else:

    def _times_given_up() -> int:
        """How often this thread has given up its core of its own accord: to sleep, or to wait for something."""
        return getrusage(RUSAGE_THREAD).ru_nvcsw

_LONG_NS = 200_000  # a gap that is looked into
# Threads with these functions are no work of the program's, or are modelled (:mod:`..hardware.clock.workers`).
_OTHERS = ("torch.utils.data.", "multiprocessing.", "gapless.")


class Stopwatch:
    """Measures from ``start()`` to ``stop()``, except for what lies between ``pause()`` and ``resume()``; the interface is
    that of :func:`gapless.vgpu.host.python_work.counter`. ``total_ns``: in all; ``blocked_ns``: of that, without a core."""

    def __init__(self) -> None:
        self.thread = 0
        self.total_ns = self.blocked_ns = 0
        self._runs = False
        self._taken_ns = self._gap_from_ns = self._from_ns = self._from_cpu_ns = self._given_up = 0
        self._entry = _Entry()
        self._threads = _OtherThreads()

    def start(self) -> None:
        """Measure from now on."""
        if not state.is_worker:
            self._entry.forward_ns, self._entry.backward_ns = entry_costs_ns()
        self.thread = get_ident()
        state.memory.left = []  # the machine takes long to take back much memory, a card does not
        self._taken_ns = self.total_ns
        self._go_on()
        self._gap_from_ns = self._from_ns

    def stop(self) -> None:
        """Measure no more."""
        self._runs = False
        state.memory.left = None

    def take_ns(self, call_ns: int) -> int:
        """Nanoseconds since it was asked last; what a call takes elsewhere does not matter."""
        if self._runs:
            self._note(enters=False)
            self._go_on()
        found, self._taken_ns = self.total_ns - self._taken_ns, self.total_ns
        return found

    def pause(self) -> bool:
        """What comes now is none of the program's work. In another thread it does nothing, and says False."""
        if get_ident() != self.thread:
            return False
        if self._runs:
            self._note(enters=True)
            self._runs = False
            if state.memory.left:
                state.memory.left.clear()
            self._threads.begin()
        return True

    def resume(self) -> None:
        """The program goes on."""
        self.total_ns += self._threads.done_ns()
        self._go_on()
        self._gap_from_ns = self._from_ns

    def gap(self) -> tuple[int, int]:
        """Since when the program is out of the device, and for how long, in nanoseconds; (0, 0) where it is not. May be
        asked in any thread."""
        from_ns = self._gap_from_ns
        return (from_ns, time.perf_counter_ns() - from_ns) if self._runs else (0, 0)

    def _go_on(self) -> None:
        self._given_up = _times_given_up()
        self._from_cpu_ns = time.thread_time_ns()
        self._from_ns = time.perf_counter_ns()
        self._runs = True

    def _note(self, enters: bool) -> None:
        if enters and state.region is not None:
            return  # in the backward pass of a compiled graph, which is one call, and on the clock where it ends
        ns = time.perf_counter_ns() - self._from_ns
        if ns > _LONG_NS:
            cpu_ns = min(ns, time.thread_time_ns() - self._from_cpu_ns)
            if _times_given_up() == self._given_up:
                ns = cpu_ns
            self.blocked_ns += ns - cpu_ns
        self.total_ns += self._entry.without(ns) if enters else ns


class _Entry:
    """The way into an operator, to be left out of the time before it. ``forward_ns`` and ``backward_ns`` are what it takes
    in a loop that does nothing else. A program that computes much in between takes longer, as caches hold other things: by
    how much its backward passes show, where hardly anything else happens between two operators."""

    _ENOUGH = 64

    def __init__(self) -> None:
        self.forward_ns = self.backward_ns = 0
        self._longer = 1.0
        self._owed_ns = 0.0  # gaps that were shorter than the way in
        self._backward_gaps: list[int] = []

    def without(self, ns: int) -> int:
        """What of ``ns`` is left."""
        if not self.forward_ns:
            return ns
        if torch._C._current_autograd_node() is None:
            entry_ns = self.forward_ns
        else:
            entry_ns = self.backward_ns
            self._backward_gaps.append(ns)
            if len(self._backward_gaps) == self._ENOUGH:
                self._longer = max(1.0, statistics.median(self._backward_gaps) / entry_ns)
                self._backward_gaps.clear()
        left_ns = ns - self._longer * entry_ns - self._owed_ns
        self._owed_ns = min(max(0.0, -left_ns), 10 * entry_ns)
        return max(0, round(left_ns))


class _OtherThreads:
    """What the program's other Python threads do while it is in the device, which takes far longer than a GPU would."""

    def __init__(self) -> None:
        self._hidden_ns: dict[threading.Thread, int] = {}
        self._begun: tuple[dict[threading.Thread, int], int, int] | None = None

    def begin(self) -> None:
        """The program calls the device."""
        if len(threading._active) > 1:
            self._begun = self._cpu_ns(), time.thread_time_ns(), time.perf_counter_ns()

    def done_ns(self) -> int:
        """The program comes back: what threads that have ended meanwhile did while it waited in the device. What a
        thread does that runs on and on is not the program's steps'."""
        if self._begun is not None:
            (before, own_ns, began_ns), self._begun = self._begun, None
            still_ns = max(0, time.perf_counter_ns() - began_ns - (time.thread_time_ns() - own_ns))
            for thread, cpu_ns in self._cpu_ns().items():
                ns = cpu_ns - before.get(thread, cpu_ns)
                self._hidden_ns[thread] = self._hidden_ns.get(thread, 0) + min(ns, still_ns)
        if not self._hidden_ns:
            return 0
        return sum(self._hidden_ns.pop(thread) for thread in list(self._hidden_ns) if not thread.is_alive())

    def _cpu_ns(self) -> dict[threading.Thread, int]:
        found = {}
        for thread in list(threading._active.values()):
            if thread is not threading.current_thread() and not _is_others(thread):
                with suppress(OSError, AttributeError):  # it has ended; no such clocks here
                    found[thread] = time.clock_gettime_ns(time.pthread_getcpuclockid(thread.ident))
        return found


def _is_others(thread: threading.Thread) -> bool:
    what = getattr(thread, "_target", None) or type(thread)
    return isinstance(thread, threading._DummyThread) or (getattr(what, "__module__", None) or "").startswith(_OTHERS)


class _Gaps(list):
    """Nanoseconds between two calls of the device."""

    thread = 0  # nobody's: only operators tell it anything

    def pause(self) -> bool:
        self.append(time.perf_counter_ns() - self._from_ns)
        return True

    def resume(self) -> None:
        self._from_ns = time.perf_counter_ns()


@functools.cache
def entry_costs_ns() -> tuple[int, int]:
    """What the way into an operator of the virtual GPU and out of it takes on this machine, in the program and in a backward
    pass: the median over calls of an operator from a plain loop, with autograd."""
    before, forward, backward = (state.counting, state.timeline), _Gaps(), _Gaps()
    state.timeline = Timeline(state.card)  # on nobody's clock
    with torch.enable_grad():
        start = torch.ones(1, device=DEVICE, requires_grad=True)
        for gaps in (_Gaps(), forward):  # the first time much is not known yet
            found, state.counting = start, gaps
            gaps.resume()
            for _ in range(200):
                found = found * 1.0
            state.counting = backward
            backward.resume()
            found.sum().backward()
            state.counting = None
    state.counting, state.timeline = before
    return round(statistics.median(forward)), round(statistics.median(backward))
