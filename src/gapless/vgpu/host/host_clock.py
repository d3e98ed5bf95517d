"""What the host does by itself while something is measured. The timeline asks for it where the next operator begins, and
where the clock is read or waited for.

Counted, which is the same on every machine: Python's calls (:mod:`.python_work`) and operators on CPU tensors
(:mod:`.host_operators`). Measured (:func:`measured`): the seconds that the program really takes (:mod:`.stopwatch`).
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from threading import get_ident

from torch.utils import _python_dispatch

from ..process import location
from ..process.state import state
from . import python_work
from .host_operators import HostOperators
from .stopwatch import Stopwatch


class HostClock:
    """Counts from :meth:`begin` to :meth:`end`; they nest. ``measured``: with a stopwatch."""

    def __init__(self, measured: bool):
        self._depth = 0
        self.work = Stopwatch() if measured else python_work.counter(location.is_program)
        self.operators = HostOperators()
        self.measured = measured

    def begin(self) -> None:
        """Count from now on. Raises RuntimeError where another profiler is in the way."""
        if not self._depth:
            self.work.start()
            self.operators.owed_ns = 0
            if not self.measured:
                self.operators.__enter__()
            state.counting, state.timeline.counted = self.work, self.take_ns
        self._depth += 1

    def end(self) -> None:
        """Count no more; what was counted is on the clock. Raises RuntimeError where Python could not be counted."""
        self._depth -= 1
        if self._depth:
            return
        state.timeline.catch_up()
        state.counting = state.timeline.counted = None
        _leave(self.operators)
        self.work.stop()

    def abandon(self) -> None:
        """Whatever was counted, and wherever this is called."""
        if self._depth:
            self.work.stop()

    def take_ns(self) -> int:
        """Virtual nanoseconds since it was asked last."""
        operators, operators_ns = self.operators, self.operators.owed_ns
        operators.owed_ns = 0
        return self.work.take_ns(state.card.host.python_call_ns) + operators_ns


def _leave(mode: HostOperators) -> bool:
    """Leave ``mode``; those that were entered later stay. Whether it was entered: inside its own method it is not."""
    above = []
    while (top := _python_dispatch._get_current_dispatch_mode()) is not mode and top is not None:
        above.append(_python_dispatch._pop_mode())
    if top is not None:
        mode.__exit__(None, None, None)
    for each in reversed(above):
        _python_dispatch._push_mode(each)
    return top is not None


_clock: HostClock | None = None


def clock() -> HostClock:
    """The one of this process."""
    global _clock
    if _clock is None:
        _clock = HostClock(_measured)
    return _clock


_measured = False


def measure(on: bool) -> None:
    """From now on the clock follows what the program really takes on this machine (``on`` False: it counts). Raises
    RuntimeError in the middle of a measurement."""
    global _clock, _measured
    if state.counting is not None:
        raise RuntimeError("the host's clock is at work: choose before the measurement how it goes")
    _clock, _measured = None, on


@contextmanager
def measured(on: bool = True):
    """:func:`measure` inside, and afterwards as before."""
    before = _measured
    measure(on)
    try:
        yield
    finally:
        measure(before)


def is_measured() -> bool:
    """Whether it goes so."""
    return _measured


def blocked_ns() -> int:
    """How long the program has waited so far without a core, for a disk, a lock or a clock. Only measured, else 0."""
    return clock().work.blocked_ns


class counting:
    """Inside, what the host does by itself is on the clock."""

    def __enter__(self) -> None:
        clock().begin()

    def __exit__(self, *error) -> None:
        clock().end()


class uncounted:
    """Inside, nothing is counted: for what a measurement itself does beside the program. In a thread that does not count
    this does nothing."""

    def __enter__(self) -> uncounted:
        self._python = state.counting
        if self._python is not None and self._python.thread != get_ident():
            self._python = None
        if self._python is not None:
            state.timeline.catch_up()
            state.counting = None
            self._python.pause()
            self._left = _leave(clock().operators)
        return self

    def __exit__(self, *error) -> None:
        if self._python is not None:
            if self._left:
                clock().operators.__enter__()
            self._python.resume()
            state.counting = self._python

    @contextmanager
    def but_for(self):
        """A part of it, inside of which is counted as around it."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


@contextmanager
def silent():
    """Inside, Python is not counted, and no clock moves: for what Python does in its own time, such as a finaliser."""
    counting = state.counting
    if counting is None or not counting.pause():
        yield
        return
    state.counting = None
    try:
        yield
    finally:
        state.counting = counting
        counting.resume()


def forget() -> None:
    """In a process that was forked: what the process before it counted, and how, is not this one's."""
    global _clock
    if _clock is not None:
        with suppress(RuntimeError):  # its profile function is another's by now
            _clock.abandon()
    _clock = state.counting = None
