"""Having a learner's function asked behind the fence: which processes there are, and who talks to whom.

On the virtual GPU there are two beside this one. The learner's (:mod:`.worker`) runs the cell and holds handles to tensors;
it is shown nothing but what it needs (:mod:`.package`). The device's (:mod:`.device_process`) holds values, clock and card,
asks the function, and leaves evidence; it never runs the learner's code. Between them is a socket. On a real GPU the
learner's process has the device too (:mod:`.own_process`): what is measured there is measured beside code that could change
it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import select
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..course.evidence import Evidence, EvidenceError, Plan, save_plan
from ..course.exercise import Exercise, Lesson
from ..files import temporary_folder
from ..measure.device import VARIABLE
from ..vgpu import card
from ..vgpu.hardware.cardfile import card_to_json
from .confine import Confinement, Ending, GradingError, Limits, place_of, run_confined
from .device_process import DONE, EVIDENCE, FAILED, GONE
from .package import write_package

_ENDINGS = {
    "timeout": "it was not done within {detail}: does every loop in the cell come to an end?",
    "memory": "it took more than {detail} of memory: what does the cell allocate, and does it let go of it?",
    "processes": "it started {detail}; no exercise needs so many",
    "files": "it wrote {detail}; an exercise needs none",
    "ended": "its process ended before the checks were done ({detail}): an os._exit or a crash in the cell?",
}
_POLL_SECONDS = 0.02
_WHOLE_RUN = 3.0  # times the limit on real time, for a whole run of a program
_LAST_SECONDS = 30.0  # for the device's process to write down what it has seen


class Ended(Exception):
    """The learner's process was ended, or ended itself; the message is for the learner."""


class Broken(Exception):
    """Code of ours raised; the message is its traceback."""


class AskAlone(Exception):
    """Among others it came to no good end, after ``seconds``: ask again with ``alone``, and for other inputs, as what the
    cell has seen it may have told itself."""

    def __init__(self, seconds: float):
        super().__init__(seconds)
        self.seconds = seconds


class Asker:
    """Has exercises of one submission asked. ``stopped`` is asked from time to time whether to give up."""

    def __init__(self, lesson: Lesson, package: str, device: str, limits: Limits, confinement: Confinement,
                 stopped: Callable[[], bool]):
        self._lesson, self._package, self._device = lesson, package, device
        self._limits, self._confinement, self._stopped = limits, confinement, stopped
        self._temporary = contextlib.ExitStack()
        self._root = self._temporary.enter_context(temporary_folder())
        self._numbers = itertools.count()
        self._numbering = threading.Lock()

    def ask(self, exercise: Exercise, plan: Plan, source: str, order: int, alone: bool = False, spent_s: float = 0.0
            ) -> Evidence:
        """What was seen of the function in the cell ``source``. ``alone``: in a sandbox that it shares with none;
        ``spent_s`` of its time is gone already. Raises Ended, Broken, AskAlone, GradingError."""
        raise NotImplementedError

    @property
    def is_ready(self) -> bool:
        """Whether what is asked is asked at once."""
        return True

    def close(self) -> None:
        """Leave nothing behind."""
        self._temporary.close()

    def _seconds(self, exercise: Exercise) -> float:
        """How long an exercise may take: a whole run of a program is many steps."""
        return self._limits.seconds * (_WHOLE_RUN if exercise.whole_run else 1)

    def _new_folder(self, exercise: Exercise) -> Path:
        with self._numbering:
            folder = self._root / "jobs" / f"{next(self._numbers)}-{exercise.name}"
        folder.mkdir(parents=True)
        return folder

    def _read(self, folder: Path, exercise: Exercise) -> Evidence:
        try:
            evidence = Evidence.load(folder / EVIDENCE)
            if evidence.exercise != exercise.name:
                raise EvidenceError("it is for another exercise")
        except EvidenceError as error:
            raise Ended(f"what was measured {error}") from None
        evidence.device, evidence.simulated = self._device, self._device.startswith("vgpu")
        return evidence


class DeviceBehind(Asker):
    """The learner's process holds handles, and the device is behind a boundary.

    Processes are forked from two that have imported everything once. All the learner's run in one sandbox at first: they
    are one submission's, and start at once. Of a cell that comes to no good end there, or that another's end has taken
    along, what is seen in a sandbox of its own counts.
    """

    def __init__(self, *args):
        super().__init__(*args)
        self._card = card_to_json(card())
        self._shown = write_package(self._root / "package", self._modules())
        self._jobs = self._root / "jobs"
        self._jobs.mkdir()
        self._output("learners").touch()
        self._cores = _Cores()
        places = dict.fromkeys(("gapless", self._package.partition(".")[0]))
        self._device_server = _Server(
            "gapless.grading.device_process", lambda control: [str(control), self._package, self._lesson.id],
            shown=[place_of(name) for name in places], writable=[self._jobs], environment={VARIABLE: self._device},
            confinement=self._confinement, limits=_for_a_server(self._limits))
        self._learners = _Server(
            "gapless.grading.worker",
            lambda control: [json.dumps({**self._learner(), "control": control}), str(self._output("learners"))],
            **self._around_learners("learners"), limits=_for_a_server(self._limits))

    def _modules(self) -> set[str]:
        """What the learner's process needs."""
        asks = (exercise.ask for exercise in self._lesson.exercises.values() if exercise.ask is not None)
        return {"gapless.grading.worker", *(function.__module__ for function in (self._lesson.names, *asks))}

    def _learner(self) -> dict:
        """What every learner's process is told."""
        return {"card": self._card, "names": _place(self._lesson.names)}

    def _of(self, exercise: Exercise, core: int | None) -> dict:
        """What the learner's process for ``exercise`` is told besides."""
        return {"ask": None if exercise.ask is None else _place(exercise.ask), "core": core}

    def _output(self, name: str) -> Path:
        """The file for what a learner's process prints."""
        return self._root / f"{name}.output.txt"

    def _around_learners(self, name: str) -> dict:
        """The fence around a learner's process, as options of :func:`run_confined`."""
        return {"shown": self._shown, "hidden": _installed("gapless", self._package.partition(".")[0]),
                "writable": [self._output(name)], "environment": {VARIABLE: self._device}, "confinement": self._confinement}

    @property
    def is_ready(self) -> bool:
        return self._learners.is_ready or self._learners.is_gone

    def close(self) -> None:
        for server in (self._learners, self._device_server):
            server.close()
        super().close()

    def ask(self, exercise: Exercise, plan: Plan, source: str, order: int, alone: bool = False, spent_s: float = 0.0
            ) -> Evidence:
        with self._cores.one() as core, self._at_the_device(exercise, plan, source, order, core) as asked:
            return self._evidence(asked, self._alone(asked, spent_s) if alone else self._among_others(asked))

    @contextlib.contextmanager
    def _at_the_device(self, exercise: Exercise, plan: Plan, source: str, order: int, core: int | None) -> Iterator[_Asked]:
        """The device's process for one exercise, told what to ask."""
        folder = self._new_folder(exercise)
        save_plan(plan, folder / "plan.npz")
        job = {"lesson": self._lesson.id, "program": self._lesson.program, "exercise": exercise.name,
               "source": source, "card": self._card, "order": order,
               "core": core, "seconds": self._seconds(exercise), "memory_bytes": self._limits.memory_bytes}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        own, theirs = socket.socketpair()
        said, say = os.pipe()
        ranks = sum(case.options["world"] for case in plan.cases) if exercise.ranks else 0
        pairs = [socket.socketpair() for _ in range(ranks)]
        try:
            with theirs, _closing(end for _, end in pairs) as far:
                try:
                    self._device_server.begin(folder.name, {"path": str(folder / "job.json")},
                                              [theirs.fileno(), say, *(end.fileno() for end in far)])
                except OSError:
                    raise self._no_device() from None
                finally:
                    os.close(say)
            with own, _closing(end for end, _ in pairs) as ends:
                yield _Asked(exercise, folder, own, said, core, ends)
        finally:
            os.close(said)
            self._device_server.end(folder.name)
            shutil.rmtree(folder, ignore_errors=True)

    def _among_others(self, asked: _Asked) -> Ending:
        """Has the learner's process be one of many in a sandbox. Raises AskAlone where that came to no good end."""
        output = os.open(self._output(asked.folder.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        number = asked.folder.name
        try:
            ends = [end.fileno() for end in asked.ends]
            self._learners.begin(number, self._of(asked.exercise, asked.core), [asked.channel.fileno(), output, *ends])
        except OSError:
            raise AskAlone(0.0) from None
        finally:
            os.close(output)
        # Its other end is in the learner's process alone: the device sees where that ends.
        for end in (asked.channel, *asked.ends):
            end.close()
        begun = time.monotonic()
        try:
            while not asked.is_done():
                if not self._learners.is_ready:
                    begun = time.monotonic()
                if self._stopped():
                    raise GradingError("grading was stopped")
                if self._learners.is_gone:
                    raise AskAlone(time.monotonic() - begun)
                if time.monotonic() - begun > self._seconds(asked.exercise):
                    return Ending("timeout", f"{self._seconds(asked.exercise):g} s")
        finally:
            self._learners.end(number)
        if asked.last_word() != DONE:
            raise AskAlone(time.monotonic() - begun)
        return Ending("finished")

    def _alone(self, asked: _Asked, spent_s: float) -> Ending:
        """Runs the learner's process in a sandbox of its own; "finished" also where the device has seen all there is."""
        def done() -> bool:
            if asked.is_done(0):
                raise _DeviceIsDone
            return self._stopped()

        name = asked.folder.name
        self._output(name).touch()
        job = {**self._learner(), **self._of(asked.exercise, asked.core), "channel": asked.channel.fileno(),
               "ends": [end.fileno() for end in asked.ends]}
        try:
            return run_confined("gapless.grading.worker", [json.dumps(job), str(self._output(name))],
                                **self._around_learners(name), pass_fds=[asked.channel.fileno(), *job["ends"]], stopped=done,
                                limits=dataclasses.replace(self._limits, seconds=self._seconds(asked.exercise) - spent_s))
        except _DeviceIsDone:
            return Ending("finished")
        finally:
            asked.channel.close()

    def _evidence(self, asked: _Asked, ending: Ending) -> Evidence:
        if ending.kind == "broken":
            raise Broken(ending.detail or "no reason given")
        if ending.kind != "finished":
            raise Ended(_ENDINGS[ending.kind].format(detail=ending.detail))
        said = asked.last_word()
        if said.startswith(FAILED):
            raise Broken(said[len(FAILED):].decode(errors="replace"))
        if said not in (DONE, GONE):
            if self._device_server.is_gone:
                raise self._no_device()
            raise Ended("the device's process ended over what the cell asked of it: an operator with arguments that PyTorch "
                        "cannot take, or one that takes too long or too much memory?")
        return self._read(asked.folder, asked.exercise)

    def _no_device(self) -> GradingError:
        return GradingError(f"the device's process is gone: {self._device_server.why_gone()}. Grade again; if that does "
                            "not help, see what gapless doctor says")


@contextlib.contextmanager
def _closing(ends: Iterable[socket.socket]) -> Iterator[list[socket.socket]]:
    """These sockets, closed afterwards."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(end) for end in ends]


class _Server:
    """A confined process that forks one for each job. It is told of them over a socket, whose number is ``control``."""

    def __init__(self, module: str, arguments: Callable[[int], list[str]], **options):
        self._mouth, ears = socket.socketpair()
        self._closed = threading.Event()
        self._failure: Exception | str | None = None
        self._thread = threading.Thread(target=self._run, args=(module, arguments, ears, options), daemon=True)
        self._thread.start()

    def _run(self, module: str, arguments: Callable[[int], list[str]], ears: socket.socket, options: dict) -> None:
        try:
            ending = run_confined(module, arguments(ears.fileno()), pass_fds=[ears.fileno()], stopped=self._closed.is_set,
                                  **options)
            self._failure = f"{ending.kind}: {ending.detail}"
        except Exception as error:
            self._failure = error
        finally:
            ears.close()

    def begin(self, number: str, job: dict, fds: list[int]) -> None:
        """Give it a job; it gets duplicates of the descriptors ``fds``. Raises OSError where it is gone."""
        socket.send_fds(self._mouth, [json.dumps({"begin": number, **job}).encode() + b"\n"], fds)

    def end(self, number: str) -> None:
        """End what was begun, should it still run."""
        with contextlib.suppress(OSError):
            self._mouth.sendall(json.dumps({"end": number}).encode() + b"\n")

    @property
    def is_ready(self) -> bool:
        """Whether jobs begin at once."""
        return bool(select.select([self._mouth], [], [], 0)[0])

    @property
    def is_gone(self) -> bool:
        return not self._thread.is_alive()

    def why_gone(self) -> str:
        """In words."""
        self._thread.join(5)
        return str(self._failure or "it said nothing")

    def close(self) -> None:
        """End it, and all that it forked."""
        self._closed.set()
        self._mouth.close()
        self._thread.join(30)


class _Cores:
    """The processors that this process may run on, and how many exercises each has."""

    def __init__(self):
        try:
            self._busy = dict.fromkeys(sorted(os.sched_getaffinity(0)), 0)
        except AttributeError:  # not on macOS
            self._busy = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def one(self) -> Iterator[int | None]:
        """The least busy one, for the time inside; None where they cannot be told apart."""
        with self._lock:
            core = min(self._busy, key=self._busy.__getitem__, default=None)
            if core is not None:
                self._busy[core] += 1
        try:
            yield core
        finally:
            with self._lock:
                if core is not None:
                    self._busy[core] -= 1


@dataclass
class _Asked:
    """An exercise that the device's process asks. ``channel``: the learner's end of the socket. ``said``: what the device's
    process says comes out of it, and then its end. ``ends``: the learner's ends of the sockets for ranks."""

    exercise: Exercise
    folder: Path
    channel: socket.socket
    said: int
    core: int | None
    ends: list[socket.socket]
    _word: bytes = b""
    _closed: bool = False

    def is_done(self, seconds: float = _POLL_SECONDS) -> bool:
        """Whether the device's process has said its last word, or does so within ``seconds``."""
        while not self._closed and select.select([self.said], [], [], seconds)[0]:
            block = os.read(self.said, 65536)
            self._word += block
            self._closed = not block
        return bool(self._word) or self._closed

    def last_word(self) -> bytes:
        """What the device's process says in the end; nothing where it has none."""
        deadline = time.monotonic() + _LAST_SECONDS
        while not self._closed and time.monotonic() < deadline:
            self.is_done(0.1)
        return self._word


class OwnProcess(Asker):
    """The learner's process has everything: the way on a real GPU."""

    def ask(self, exercise: Exercise, plan: Plan, source: str, order: int, alone: bool = True, spent_s: float = 0.0
            ) -> Evidence:
        folder = self._new_folder(exercise)
        save_plan(plan, folder / "plan.npz")
        job = {"lessons": self._package, "lesson": self._lesson.id, "program": self._lesson.program,
               "exercise": exercise.name, "source": source,
               "device": self._device, "order": order}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        packages = dict.fromkeys(("gapless", self._package.partition(".")[0], "torch", "numpy", *self._lesson.packages))
        ending = run_confined("gapless.grading.own_process", [str(folder)], shown=[place_of(name) for name in packages],
                              writable=[folder], environment={VARIABLE: self._device}, gpu=self._device.startswith("cuda"),
                              limits=dataclasses.replace(self._limits, seconds=self._seconds(exercise)),
                              confinement=self._confinement, stopped=self._stopped)
        if ending.kind == "broken":
            raise Broken(ending.detail or "no reason given")
        if ending.kind != "finished":
            raise Ended(_ENDINGS[ending.kind].format(detail=ending.detail))
        return self._read(folder, exercise)


class _DeviceIsDone(Exception):
    """The device's process has ended: there is nothing more to wait for."""


def _place(function: Callable) -> str:
    """``module:function``. Raises GradingError for what is not found by its name."""
    place = f"{function.__module__}:{function.__qualname__}"
    if getattr(sys.modules[function.__module__], function.__qualname__, None) is not function:
        raise GradingError(f"{place} is no function of a module: the learner's process could not find it")
    return place


def _installed(*names: str) -> list[Path]:
    """Those of the packages that lie among the installed libraries, which the sandbox shows as a whole."""
    with contextlib.suppress(GradingError):
        places = [place_of(name) for name in names]
        return [place for place in dict.fromkeys(places) if place.is_relative_to(Path(sys.prefix).resolve())]
    return []


def _for_a_server(limits: Limits) -> Limits:
    """What a server's processes may use, all together."""
    at_once = os.cpu_count() or 1
    return Limits(seconds=24 * 3600.0, start_seconds=limits.start_seconds, memory_bytes=limits.memory_bytes * at_once,
                  file_bytes=limits.file_bytes, processes=limits.processes * at_once, threads=limits.threads * at_once,
                  disk_bytes=limits.disk_bytes * at_once, files=limits.files * at_once,
                  temporary_bytes=limits.temporary_bytes)
