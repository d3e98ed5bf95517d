"""Many gradings at once: in worker processes of this machine, or of a Dask cluster.

A worker imports PyTorch once, and keeps the servers from which the processes of a grading are forked. One that dies has what
it was grading graded again.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing
import os
import signal
import tempfile
import threading
import time
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

from .confine import GradingError
from .job import Job, Outcome, grade_job

_MOST_DEATHS = 2  # of workers over one submission, before it is graded while no other is, and then before it is given up
_CLUSTER_SECONDS = 60.0  # to wait for a cluster's first worker
_WORKER_BYTES = 3 << 30  # a worker on lesson 02, and what is forked for it: 2.5 GB (benchmarks/class_throughput.py)
_LONGEST_FOLDER = 70  # bytes: the fork server makes a socket in the temporary folder, whose path may have 107
# What every worker needs, and what takes seconds.
_IMPORTED_ONCE = ["gapless.grading.job", "gapless.grading.engine", "gapless.grading.grade", "gapless.grading.show",
                  "gapless.lessons", "matplotlib.pyplot", "papermill"]


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
        """How many there are now."""
        raise NotImplementedError


def grade_all(jobs: Iterable[tuple[Hashable, Job]], workers: Workers) -> Iterator[tuple[Hashable, Outcome | Exception]]:
    """Grade ``jobs``, pairs of a key and a job: (key, outcome or what was raised) as each is done, in any order.

    ``jobs`` is read as workers become free. Where workers die, what was under way is graded again; what was under way
    several times, alone. What workers die over even then has a GradingError. Raises GradingError where the workers cannot be
    reached any more.
    """
    waiting = (_Task(*each) for each in jobs)
    again: list[_Task] = []
    running: dict[Future, _Task] = {}
    while True:
        alone = any(task.is_suspect for task in again)
        if alone:
            again.sort(key=lambda task: task.is_suspect)
        broken = False
        while len(running) < (1 if alone else workers.count()):
            task = again.pop() if again else next(waiting, None)
            if task is None:
                break
            try:
                running[workers.executor.submit(_grade, task.job)] = task
            except BrokenExecutor:
                again.append(task)
                broken = True
                break
        if not running and not broken:
            return
        died: list[_Task] = []
        for future in wait(running, return_when=FIRST_COMPLETED)[0]:
            task = running.pop(future)
            try:
                outcome: Outcome | Exception = future.result()
            except (BrokenExecutor, CancelledError):
                died.append(task)
                continue
            except Exception as error:
                outcome = _unlucky() if type(error).__name__ == "KilledWorker" else error  # Dask has tried it often
            yield task.key, outcome
        if died or broken:
            died += running.values()
            running.clear()
            workers.begin_again()
        for task in died:
            task.has_died()
            if task.deaths_alone == _MOST_DEATHS:
                yield task.key, _unlucky()
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
        """Whether it is to be graded while no other is."""
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
    return grade_job(job)


@functools.cache
def _keep_servers() -> None:
    """From one grading to the next, while this process lives."""
    import torch

    from .servers import keep_servers

    torch.set_num_threads(1)
    stack = contextlib.ExitStack()
    stack.enter_context(keep_servers())
    atexit.register(stack.close)


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
        return ProcessPoolExecutor(self._most, mp_context=_context(), initializer=_begin_process)

    def end(self, at_once: bool = False) -> None:
        processes = list((self.executor._processes or {}).values())
        super().end(at_once)
        if at_once:
            for process in processes:
                process.terminate()
        for process in processes:
            process.join(30)

    def count(self) -> int:
        return self._most


def _context() -> multiprocessing.context.BaseContext:
    """Starts processes without forking this one, which may have threads."""
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST_FOLDER:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED_ONCE)
    return context


def _begin_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is told by the process that started it
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


# -- of a cluster -----------------------------------------------------------------------------------


class DaskWorkers(Workers):
    """Those of the cluster whose scheduler is at ``address``, however many it has at a time. Each of its processes grades
    one submission at once, whatever its threads."""

    def __init__(self, address: str):
        self._address = address

    def begin(self) -> Executor:
        try:
            from distributed import Client
        except ImportError:
            raise GradingError("a cluster needs Dask: pip install 'gapless[cluster]'") from None
        try:
            self._client = Client(self._address, timeout=_CLUSTER_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise GradingError(f"there is no Dask scheduler at {self._address}: {error}") from None
        return self._client.get_executor(pure=False)

    def end(self, at_once: bool = False) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            super().end(at_once)
            self._client.close()

    def count(self) -> int:
        deadline = time.monotonic() + _CLUSTER_SECONDS
        while not (found := len(self._client.scheduler_info(n_workers=-1)["workers"])):
            if time.monotonic() > deadline:
                raise GradingError(f"the Dask scheduler at {self._address} has no workers: start some with dask worker "
                                   f"{self._address}")
            time.sleep(0.2)
        return found
