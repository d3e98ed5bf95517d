"""Gradings on the workers of a Dask cluster that exists.

What is sent names our function and holds the submission; what comes back is JSON. So a scheduler needs nothing of ours, and
a worker that has nothing of ours can say so. Each worker is looked at before it gets a submission: one that cannot grade
would be done with each at once, and so get all of them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import multiprocessing
import threading
import time
import warnings
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import asdict, dataclass

from ..sandbox.confine import GradingError, require_confinement
from .job import Job, Outcome, check_versions, versions
from .pool import LocalWorkers, WorkerLost, Workers, grade_all

_CONNECT_SECONDS = 60.0  # until a scheduler answers, and until there is a first worker
# More than an honest submission can take: an exercise has a limit of its own, and is asked at most twice, three times over.
_JOB_SECONDS = 3600.0
_MODULE = __name__
_log = logging.getLogger(__name__)


class DaskWorkers(Workers):
    """The workers of the cluster whose scheduler is at ``address``, however many it has at a time. Each of its processes
    grades one submission at once, whatever its threads.

    TLS and all else about the connection is Dask's own configuration. ``unconfined``: whether workers without a sandbox are
    taken too.
    """

    look_seconds = 1.0

    def __init__(self, address: str, unconfined: bool = False):
        self._address, self._unconfined = address, unconfined

    def begin(self) -> Executor:
        try:
            from distributed import Client
        except ImportError:
            raise GradingError("a cluster needs Dask: pip install 'gapless[cluster]'") from None
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # else tracebacks; what they mean is said here
        self._workers: dict[str, _Worker] = {}
        self._running: dict[Future, tuple[_Worker, float]] = {}
        try:
            self._client = Client(self._address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise GradingError(f"there is no Dask scheduler at {self._address} that can be used: {error}") from None
        return self._client.get_executor(pure=False)

    def begin_again(self) -> None:
        _log.warning("the Dask scheduler at %s is gone: waiting %g s for one", self._address, _CONNECT_SECONDS)
        super().begin_again()

    def end(self, at_once: bool = False) -> None:
        """A grading that is under way on a worker ends there by itself, and its outcome is dropped."""
        with contextlib.suppress(OSError, TimeoutError, CancelledError):
            self._client.close(timeout=10)

    def count(self) -> int:
        deadline, warned = time.monotonic() + _CONNECT_SECONDS, False
        while True:
            self._look()
            fit = sum(worker.is_fit for worker in self._workers.values())
            if fit:
                return fit
            if time.monotonic() > deadline and all(worker.is_looked_at for worker in self._workers.values()):
                reasons = "; ".join(dict.fromkeys(worker.unfit for worker in self._workers.values()))
                raise GradingError(f"no worker of the Dask cluster at {self._address} can grade: {reasons}" if reasons else
                                   f"the Dask scheduler at {self._address} has no workers: start some with dask worker "
                                   f"{self._address}")
            if time.monotonic() > deadline and not warned:
                _log.warning("the workers of the Dask cluster %s are busy: waiting for them", self._address)
                warned = True
            time.sleep(0.1)

    def submit(self, job: Job) -> Future:
        busy = {worker.address for worker, _ in self._running.values()}
        worker = next(each for each in self._workers.values() if each.is_fit and each.address not in busy)
        future = self._send(worker.address, "grade_here", asdict(job))
        self._running[future] = worker, time.monotonic()
        return future

    def outcome(self, future: Future) -> Outcome:
        worker, _ = self._running.pop(future)
        try:
            answer = json.loads(future.result())
        except CancelledError:
            raise
        except Exception as error:
            if type(error).__name__ == "KilledWorker":  # it came back under its address, and died again
                raise WorkerLost(worker.address) from None
            raise GradingError(f"the worker {worker.address} failed: {type(error).__name__}: {error}") from None
        if "failed" in answer:
            raise GradingError(answer["failed"])
        return Outcome(answer["results"], answer["executed"])

    def lost(self) -> list[Future]:
        gone = []
        for future, (worker, since) in list(self._running.items()):
            late = time.monotonic() > since + _JOB_SECONDS
            if late:
                worker.unfit = f"the worker {worker.address} was not done with a submission after {_JOB_SECONDS:g} s"
                _log.warning("%s: it gets no more", worker.unfit)
            if (late or worker.address not in self._workers) and not future.done():
                del self._running[future]
                future.cancel()
                gone.append(future)
        return gone

    def _look(self) -> None:
        """Which workers there are now; those that are new are asked whether they can grade."""
        try:
            there = self._client.sync(self._client.scheduler.ncores, callback_timeout=_CONNECT_SECONDS)
        except Exception as error:  # Dask's, of many kinds
            raise BrokenExecutor(f"{type(error).__name__}: {error}") from None
        for address in self._workers.keys() - there.keys():
            asked = self._workers.pop(address).asked
            if asked is not None:
                asked.cancel()
        for address in there.keys() - self._workers.keys():
            asked = self._send(address, "why_unfit", {"wanted": versions(), "unconfined": self._unconfined})
            self._workers[address] = _Worker(address, asked)
        for worker in self._workers.values():
            worker.hear()

    def _send(self, address: str, function: str, arguments: dict) -> Future:
        executor = self._client.get_executor(pure=False, workers=[address], allow_other_workers=False)
        call = f"__import__({_MODULE!r}, fromlist=['it']).{function}(**arguments)"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # some submissions are large
            return executor.submit(eval, call, {"arguments": arguments})


@dataclass(eq=False)
class _Worker:
    """``asked``: what it says to :func:`why_unfit`, until it has. ``unfit``: why it gets no submission; '' where it gets
    some, None until it has said."""

    address: str
    asked: Future | None
    unfit: str | None = None

    @property
    def is_looked_at(self) -> bool:
        return self.unfit is not None

    @property
    def is_fit(self) -> bool:
        return self.unfit == ""

    def hear(self) -> None:
        """Take note of what it said, once."""
        if self.asked is None or not self.asked.done() or self.asked.cancelled():
            return
        asked, self.asked = self.asked, None  # while it is kept the scheduler keeps the answer
        error = asked.exception()
        if isinstance(error, ModuleNotFoundError):
            self.unfit = f"the worker {self.address} lacks this version of gapless or what it needs for grading ({error})"
        elif error is not None:
            self.unfit = f"the worker {self.address} failed ({type(error).__name__}: {error})"
        else:
            why = asked.result()
            self.unfit = why and f"the worker {self.address} cannot be used: {why}"
        if self.unfit:
            _log.warning("%s: it gets no submission", self.unfit)


# -- on a worker --------------------------------------------------------------------------------------

_one_at_a_time = threading.Lock()


def why_unfit(wanted: str, unconfined: bool) -> str:
    """Why this worker cannot grade a class of somebody with the :func:`.job.versions` ``wanted``; '' where it can."""
    try:
        check_versions(wanted)
        require_confinement(unconfined)
        import nbgrader  # noqa: F401 — the extra that it comes with has all that grading needs
        import papermill  # noqa: F401
    except GradingError as error:
        return str(error)
    return ""


def grade_here(**job) -> str:
    """Grade a :class:`.job.Job` that is given by its fields; JSON with an outcome's fields, or with ``failed``, why.

    In a process of this worker's that does nothing else: a worker runs what it is given in threads, and what is graded may
    take its process along.
    """
    with _one_at_a_time:
        ((_, outcome),) = grade_all([(None, Job(**job))], _inner())
    if isinstance(outcome, Outcome):
        return json.dumps(asdict(outcome))
    return json.dumps({"failed": str(outcome) if isinstance(outcome, GradingError) else repr(outcome)})


@functools.cache
def _inner() -> LocalWorkers:
    # A nanny's worker may have no children otherwise; this one's end by themselves when it is gone.
    multiprocessing.current_process().daemon = False
    workers = LocalWorkers(1)
    workers.__enter__()
    return workers
