"""How many Python functions the program calls: what Python's own work is counted by.

A call is a function's start, or a generator's resumption (by an exception too), in the thread that counts. Comprehensions
are not calls (Python 3.12 runs them in place), and what an import runs is none of the program's work, nor what the garbage
collector does: when it runs hangs on all that was there before. Not seen: functions in C (NumPy's, too), and loops that
call nothing. Needs no PyTorch.
"""

# mypy: disable-error-code="assignment, attr-defined, no-redef"
# Another Python has what is asked for here: sys.monitoring from 3.12 on, the profile function before.
from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable
from threading import get_ident

_IMPORT = importlib._bootstrap._find_and_load.__code__  # runs where a module is not loaded yet
_IN_PLACE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
LOST = ("something in the measured code has replaced the profile function that counts Python's calls (sys.setprofile, or a "
        "profiler such as cProfile): start it outside the measurement, or leave it out")


class _Files(dict):
    """File name → whether its functions count."""

    def __init__(self, counts: Callable[[str], bool]):
        super().__init__()
        self._counts = counts

    def __missing__(self, filename: str) -> bool:
        found = self[filename] = self._counts(filename)
        return found


class _Counter:
    """Counts nothing while the garbage collector runs."""

    _counted = False

    blocked_ns = 0  # a counted host waits for nothing of its own
    thread: int
    take: Callable[[], int]
    counts: Callable[[], bool]
    pause: Callable[[], bool]
    resume: Callable[[], None]

    def take_ns(self, call_ns: int) -> int:
        """What the calls since it was asked last take, each ``call_ns``."""
        return self.take() * call_ns

    def _watch_collector(self) -> None:
        gc.callbacks.insert(0, self._before_collection)  # around the callbacks of others (IPython's, Hypothesis'): those are
        gc.callbacks.append(self._after_collection)  # Python too, and run whenever the collector does

    def _leave_collector(self) -> None:
        for callback in (self._before_collection, self._after_collection):
            if callback in gc.callbacks:
                gc.callbacks.remove(callback)

    def _before_collection(self, phase: str, info: dict) -> None:
        if phase == "start" and get_ident() == self.thread:
            self._counted = self.counts()
            if self._counted:
                self.pause()

    def _after_collection(self, phase: str, info: dict) -> None:
        if phase == "stop" and self._counted and get_ident() == self.thread:
            self._counted = False
            self.resume()


class _Profiled(_Counter):
    """By ``sys.setprofile``, for Python 3.11. A profile function of someone else's goes on."""

    def __init__(self, counts: Callable[[str], bool]):
        calls, importing, theirs, files = 0, 0, None, _Files(counts)

        def count(frame, event, argument):
            nonlocal calls, importing
            if event == "call":
                code = frame.f_code
                if importing or not files[code.co_filename]:
                    importing += code is _IMPORT
                elif code.co_name not in _IN_PLACE:
                    calls += 1
            elif importing and event == "return" and frame.f_code is _IMPORT:
                importing -= 1
            if theirs is not None:
                theirs(frame, event, argument)

        def take() -> int:
            nonlocal calls
            found, calls = calls, 0
            return found

        def follow(function) -> None:
            nonlocal theirs, importing
            theirs, importing = function, 0

        self.take, self._count, self._follow = take, count, follow
        self._theirs: Callable | None = None
        self._lost, self.thread = False, 0

    def start(self) -> None:
        theirs = sys.getprofile()
        if theirs is not None and not callable(theirs):
            raise RuntimeError(f"a profiler ({type(theirs).__name__}) is at work, and only one can be: stop it before this "
                               "measurement, which counts Python's calls")
        self._theirs, self._lost, self.thread = theirs, False, get_ident()
        self._follow(theirs)
        self.take()
        self._watch_collector()
        sys.setprofile(self._count)

    def stop(self) -> None:
        self._leave_collector()
        self.pause()
        if self._lost:
            raise RuntimeError(LOST)

    def counts(self) -> bool:
        """Now."""
        return sys.getprofile() is self._count

    # These two run twice an operator; each call that they make is one more for the profile function.

    def pause(self) -> bool:
        if sys.getprofile() is self._count:
            sys.setprofile(self._theirs)
            return True
        if get_ident() != self.thread:
            return False
        self._lost = True
        return True

    def resume(self) -> None:
        if not self._lost:
            sys.setprofile(self._count)


def free_tool() -> int | None:
    """A tool's number that nobody uses, except the one kept for profilers; None: all are used (Python 3.12 and later)."""
    return next((tool for tool in (4, 3, 5, 1, 0) if sys.monitoring.get_tool(tool) is None), None)


class _Monitored(_Counter):
    """By ``sys.monitoring``, for Python 3.12 and later, where changing the profile function makes all code be prepared
    again. It takes one of the tools' numbers that nobody uses."""

    def __init__(self, counts: Callable[[str], bool]):
        monitoring = sys.monitoring
        calls, importing, paused, thread, files, disable = 0, 0, False, 0, _Files(counts), monitoring.DISABLE

        def count(code, offset):
            nonlocal calls, importing
            if not files[code.co_filename] or code.co_name in _IN_PLACE:
                if code is not _IMPORT:
                    return disable
                importing += get_ident() == thread
            elif not importing and not paused and get_ident() == thread:
                calls += 1
            return None

        def throw(code, offset, error):
            count(code, offset)

        def leave(code, offset, result):
            nonlocal importing
            if code is _IMPORT and get_ident() == thread:
                importing = max(0, importing - 1)

        def take() -> int:
            nonlocal calls
            found, calls = calls, 0
            return found

        def pause() -> bool:
            nonlocal paused
            if get_ident() != thread:
                return False
            paused = True
            return True

        def resume() -> None:
            nonlocal paused
            paused = False

        def counts() -> bool:
            return not paused

        def begin() -> None:
            nonlocal importing, paused, thread
            importing, paused, thread = 0, False, self.thread

        self.take, self.pause, self.resume, self.counts, self._begin = take, pause, resume, counts, begin
        self.thread = 0
        events = monitoring.events
        self._callbacks = {events.PY_START: count, events.PY_RESUME: count, events.PY_THROW: throw,
                           events.PY_RETURN: leave, events.PY_UNWIND: leave}
        self._events = events.PY_START | events.PY_RESUME | events.PY_THROW | events.PY_UNWIND
        self._tool: int | None = None

    def start(self) -> None:
        monitoring = sys.monitoring
        self._tool = free_tool()
        if self._tool is None:
            raise RuntimeError("five tools use sys.monitoring: stop one, since this measurement counts Python's calls")
        monitoring.use_tool_id(self._tool, "gapless")
        for event, callback in self._callbacks.items():
            monitoring.register_callback(self._tool, event, callback)
        self.take()
        self.thread = get_ident()
        self._begin()
        monitoring.set_local_events(self._tool, _IMPORT, monitoring.events.PY_RETURN)
        monitoring.set_events(self._tool, self._events)
        self._watch_collector()

    def stop(self) -> None:
        self._leave_collector()
        self.pause()
        monitoring, tool = sys.monitoring, self._tool
        lost = monitoring.get_tool(tool) != "gapless"
        if not lost:
            lost = monitoring.get_events(tool) != self._events
            for event, callback in self._callbacks.items():
                lost |= monitoring.register_callback(tool, event, None) is not callback
            monitoring.set_local_events(tool, _IMPORT, 0)
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)
        if lost:
            raise RuntimeError(LOST)


def counter(counts: Callable[[str], bool]) -> _Profiled | _Monitored:
    """A counter of the calls of functions in files for which ``counts(file name)``. Between ``start()`` and ``stop()`` it
    counts; ``take()`` gives the calls since it was asked last; between ``pause()`` and ``resume()`` nothing is counted.
    In another thread than the one that counts ``pause()`` does nothing and says False.
    Raises RuntimeError where another profiler is in the way, in ``stop()`` where one came in between."""
    return (_Monitored if hasattr(sys, "monitoring") else _Profiled)(counts)
