"""Many gradings at once: in worker processes of this machine; of a cluster, in :mod:`.cluster`.

A worker imports PyTorch once, and keeps the servers from which the processes of a grading are forked. One that dies has what
it was grading graded again.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from dataclasses import dataclass
from typing import Any

from ...garbage import set_aside
from ..sandbox.confine import GradingError
from .job import Job, Outcome, grade_job

_MOST_DEATHS = 2  # of workers over one submission, before it is graded while no other is, and then before it is given up
_WORKER_BYTES = 3 << 30  # a worker on lesson 02, and what is forked for it: 2.5 GB (benchmarks/class_throughput.py)
_LONGEST_FOLDER = 70  # bytes: the fork server makes a socket in the temporary folder, whose path may have 107
# What every worker needs, and what takes seconds.
_IMPORTED_ONCE = ["gapless.grading.workers.job", "gapless.grading.notebooks.engine", "gapless.grading.grade",
                  "gapless.grading.show", "gapless.lessons", "matplotlib.pyplot", "papermill"]


class Workers:
    """Where gradings are done. As a context, which ends them."""

    def __enter__(self) -> Workers:
        self.executor = self.begin()
        return self

    def __exit__(self, kind, *exc) -> None:
        self.end(at_once=kind is not None)

    def begin(self) -> Executor:
        """Start them."""
        raise NotImplementedError

    def end(self, at_once: bool = False) -> None:
        """End them. ``at_once``: and what they are at."""
        self.executor.shutdown(wait=not at_once, cancel_futures=True)

    def begin_again(self) -> None:
        """Where the executor is broken."""
        self.end(at_once=True)
        self.executor = self.begin()

    def count(self) -> int:
        """How many there are now: at least one. Raises GradingError where none can be had, and BrokenExecutor."""
        raise NotImplementedError

    look_seconds: float | None = None  # how often to ask how many there are, and which are lost; None: as one is done

    def submit(self, job: Job) -> Future:
        """Have one of them grade it. Raises BrokenExecutor."""
        return self.executor.submit(_grade, job)

    def outcome(self, future: Future) -> Outcome:
        """Of what was submitted and is done. Raises what was raised there; BrokenExecutor or CancelledError where all are
        gone, WorkerLost where only this one is."""
        return future.result()

    def lost(self) -> list[Future]:
        """What was submitted and will never be done, since its worker is gone."""
        return []


class WorkerLost(Exception):
    """The worker that graded this is gone; others are not."""


def grade_all(jobs: Iterable[tuple[Any, Job]], workers: Workers) -> Iterator[tuple[Any, Outcome | Exception]]:
    """Grade ``jobs``, pairs of a key and a job: (key, outcome or what was raised) as each is done, in any order.

    ``jobs`` is read as workers become free. Where workers die, what was under way is graded again; what was under way
    several times, alone. What workers die over even then has a GradingError. Raises GradingError where the workers cannot be
    reached any more.
    """
    waiting = (_Task(*each) for each in jobs)
    again: list[_Task] = []
    running: dict[Future, _Task] = {}
    done: list[tuple[Hashable, Outcome | Exception]] = []
    while True:
        alone = any(task.is_suspect for task in again)
        if alone:
            again.sort(key=lambda task: task.is_suspect)
        broken, failure = False, None
        try:
            while len(running) < (min(1, workers.count()) if alone else workers.count()):
                task = again.pop() if again else next(waiting, None)
                if task is None:
                    break
                again.append(task)  # until a worker has it
                future = workers.submit(task.job)
                running[future] = again.pop()
        except BrokenExecutor:
            broken = True
        except GradingError as error:
            failure = error
        yield from done  # after who is free has new work, as the caller takes its time
        done.clear()
        if failure is not None:
            raise failure
        if not running and not broken:
            return
        died: list[_Task] = []
        for future in wait(running, timeout=workers.look_seconds, return_when=FIRST_COMPLETED)[0]:
            task = running.pop(future)
            try:
                outcome: Outcome | Exception = workers.outcome(future)
            except WorkerLost:
                died.append(task)
                continue
            except (BrokenExecutor, CancelledError):
                died.append(task)
                broken = True
                continue
            except Exception as error:
                outcome = error
            done.append((task.key, outcome))
        if broken:
            died += running.values()
            running.clear()
            workers.begin_again()
        else:
            died += [running.pop(future) for future in workers.lost()]
        for task in died:
            task.has_died()
            if task.deaths_alone == _MOST_DEATHS:
                done.append((task.key, _unlucky()))
            else:
                again.append(task)


@dataclass
class _Task:
    """``deaths``: of workers while it was graded, perhaps through others' fault. ``deaths_alone``: while no other was."""

    key: Hashable
    job: Job
    deaths: int = 0
    deaths_alone: int = 0

    @property
    def is_suspect(self) -> bool:
        """Whether to grade it while no other is."""
        return self.deaths >= _MOST_DEATHS

    def has_died(self) -> None:
        """Note down one more."""
        if self.is_suspect:
            self.deaths_alone += 1
        else:
            self.deaths += 1


def _unlucky() -> GradingError:
    return GradingError("each worker that graded it ended before it was done: too little memory on that machine? Grade it "
                        "again with fewer workers")


# -- in the worker ----------------------------------------------------------------------------------


def _grade(job: Job) -> Outcome:
    _keep_servers()
    try:
        return grade_job(job)
    finally:
        _return_memory()


def _return_memory() -> None:
    """What was freed goes back to the system, else a worker holds twice as much (glibc only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


_kept = contextlib.ExitStack()
_ending = threading.Lock()


@functools.cache
def _keep_servers() -> None:
    """From one grading to the next, while this process lives."""
    from multiprocessing.util import Finalize

    import torch

    from ..sandbox.servers import keep_servers

    torch.set_num_threads(1)
    for name in _IMPORTED_ONCE:
        importlib.import_module(name)
    set_aside()
    _kept.enter_context(keep_servers())
    Finalize(None, _end_servers, exitpriority=1)  # the processes of a pool end without running what atexit has


def _end_servers() -> None:
    with _ending:  # the second one waits until they are gone
        _kept.close()


# -- of this machine --------------------------------------------------------------------------------


def cores() -> int:
    """The processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def most_workers() -> int:
    """How many gradings at once keep this machine busy, and fit into the memory that is free now."""
    import psutil

    # Some only wait for a learner's time limit.
    return max(1, min(cores() + 1, psutil.virtual_memory().available // _WORKER_BYTES))


class LocalWorkers(Workers):
    """``most`` processes of this machine, which share what they import."""

    def __init__(self, most: int):
        self._most = most

    def begin(self) -> Executor:
        return ProcessPoolExecutor(self._most, mp_context=_context(self._most), initializer=_begin_process)

    def end(self, at_once: bool = False) -> None:
        processes = list((self.executor._processes or {}).values())  # type: ignore[attr-defined]  # ProcessPoolExecutor's
        super().end(at_once)
        if at_once:
            for process in processes:
                process.terminate()
        for process in processes:
            process.join(30)

    def count(self) -> int:
        return self._most


def _context(processes: int) -> multiprocessing.context.BaseContext:
    """Starts processes without forking this one, which may have threads. One alone has nothing to share, and sees this
    package's files as they are when it starts, where a fork server would have imported them before."""
    if processes == 1 or len(os.fsencode(tempfile.gettempdir())) > _LONGEST_FOLDER:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED_ONCE)
    return context


def _begin_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it gets them from the process that started it
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        parent.join()
        try:
            _end_servers()
        finally:
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
