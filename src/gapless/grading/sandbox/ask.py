"""Having a learner's function asked behind the fence: which processes there are, and who talks to whom.

On the virtual GPU there are two beside this one. The learner's (:mod:`.worker`) runs the cell and holds handles to tensors;
it is shown only what it needs (:mod:`.package`). The device's (:mod:`.device_process`) holds values, clock and card,
asks the function, and leaves evidence; it never runs the learner's code. Between them is a socket. On a real GPU the
learner's process has the device too (:mod:`.own_process`): what is measured there is measured beside code that could change
it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...course.evidence import Evidence, EvidenceError, Plan, save_plan
from ...course.exercise import Exercise, Lesson
from ...files import temporary_folder
from ...measure.device import VARIABLE
from .confine import Confinement, Ending, GradingError, Limits, place_of, run_confined
from .device_process import DONE, EVIDENCE, FAILED, GONE
from .own_time import OwnTime
from .servers import Folders, lent, told

_ENDINGS = {
    "timeout": "it was not done within {detail}: does every loop in the cell end?",
    "memory": "it took more than {detail} of memory: what does the cell allocate, and does it release it?",
    "processes": "it started {detail}; no exercise needs so many",
    "files": "it wrote {detail}; an exercise needs none",
    "ended": "its process ended before the checks were done ({detail}): an os._exit or a crash in the cell?",
}
_LOOK_SECONDS = 0.4
_WHOLE_RUN = 3.0  # times the limit on time, for a whole run of a program
_LAST_SECONDS = 30.0  # for the device's process to write down what it has seen


class Ended(Exception):
    """The learner's process was ended, or ended itself; the message is for the learner."""


class Broken(Exception):
    """Code of ours raised; the message is its traceback."""


class AskAlone(Exception):
    """Among others it came to no good end, after ``seconds`` of its own time. Ask again with ``alone``, and for other
    inputs: the cell may have told itself what it has seen."""

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
        self._folders = Folders(self._root)

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
        return self._limits.seconds * (_WHOLE_RUN if exercise.is_whole_run else 1)

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

    Processes are forked from two that have imported everything once (:mod:`.servers`). All the learner's run in one sandbox
    at first: they are one submission's, and start at once. Of a cell that comes to no good end there, or that another's end
    has taken along, what is seen in a sandbox of its own counts.
    """

    def __init__(self, *args):
        super().__init__(*args)
        self._servers = self._temporary.enter_context(
            lent(self._lesson, self._package, self._device, self._limits, self._confinement))
        self._cores = _Cores()

    def _output(self, name: str) -> Path:
        """The file for what a learner's process prints."""
        return self._root / f"{name}.output.txt"

    @property
    def is_ready(self) -> bool:
        return self._servers.learners.is_ready or self._servers.learners.is_gone

    def ask(self, exercise: Exercise, plan: Plan, source: str, order: int, alone: bool = False, spent_s: float = 0.0
            ) -> Evidence:
        with self._cores.one() as core, self._at_the_device(exercise, plan, source, order, core) as asked:
            try:
                ending = self._alone(asked, spent_s) if alone else self._among_others(asked)
            except AskAlone:
                self._servers.spoilt = True
                raise
            self._servers.spoilt |= ending.kind != "finished"
            return self._evidence(asked, ending)

    @contextlib.contextmanager
    def _at_the_device(self, exercise: Exercise, plan: Plan, source: str, order: int, core: int | None) -> Iterator[_Asked]:
        """The device's process for one exercise, told what to ask."""
        folder = self._servers.folders.new(exercise.name)
        save_plan(plan, folder / "plan.npz")
        job = {"lesson": self._lesson.id, "program": self._lesson.program, "exercise": exercise.name,
               "source": source, "card": self._servers.card, "order": order,
               "core": core, "seconds": self._seconds(exercise), "memory_bytes": self._limits.memory_bytes}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        own, theirs = socket.socketpair()
        said, say = os.pipe()
        ranks = sum(case.options["world"] for case in plan.cases) if exercise.setting.ranks else 0
        pairs = [socket.socketpair() for _ in range(ranks)]
        try:
            with theirs, _closing(end for _, end in pairs) as far:
                try:
                    self._servers.device.begin(folder.name, {"path": str(folder / "job.json")},
                                              [theirs.fileno(), say, *(end.fileno() for end in far)])
                except OSError:
                    raise self._no_device() from None
                finally:
                    os.close(say)
            with own, _closing(end for end, _ in pairs) as ends:
                yield _Asked(exercise, folder, own, said, core, ends)
        finally:
            os.close(said)
            self._servers.device.end(folder.name)
            shutil.rmtree(folder, ignore_errors=True)

    def _among_others(self, asked: _Asked) -> Ending:
        """Has the learner's process be one of many in a sandbox. Raises AskAlone where that came to no good end."""
        output = os.open(self._output(asked.folder.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        number = asked.folder.name
        try:
            ends = [end.fileno() for end in asked.ends]
            self._servers.learners.begin(number, told(asked.exercise, asked.core), [asked.channel.fileno(), output, *ends])
        except OSError:
            raise AskAlone(0.0) from None
        finally:
            os.close(output)
        # Its other end is in the learner's process alone: the device sees where that ends.
        for end in (asked.channel, *asked.ends):
            end.close()
        spent = OwnTime()
        try:
            while not asked.is_done(_LOOK_SECONDS):
                if self._servers.learners.is_ready:
                    spent.look([*self._servers.learners.processes(), *self._servers.device.processes()], self._cores.jobs)
                else:
                    spent = OwnTime()
                if self._stopped():
                    raise GradingError("grading was stopped")
                if self._servers.learners.is_gone:
                    raise AskAlone(spent.seconds)
                if spent.seconds > self._seconds(asked.exercise):
                    return Ending("timeout", f"{self._seconds(asked.exercise):g} s")
        finally:
            self._servers.learners.end(number)
        if asked.last_word() != DONE:
            raise AskAlone(spent.seconds)
        return Ending("finished")

    def _alone(self, asked: _Asked, spent_s: float) -> Ending:
        """Runs the learner's process in a sandbox of its own; "finished" also where the device has seen all there is."""
        def done() -> bool:
            if asked.is_done(0):
                raise _DeviceIsDone
            return self._stopped()

        name = asked.folder.name
        self._output(name).touch()
        job = {**self._servers.learner, **told(asked.exercise, asked.core), "channel": asked.channel.fileno(),
               "ends": [end.fileno() for end in asked.ends]}
        try:
            return run_confined("gapless.grading.sandbox.worker", [json.dumps(job), str(self._output(name))],
                                **self._servers.around_learners(self._output(name)),
                                pass_fds=[asked.channel.fileno(), *job["ends"]], stopped=done,
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
            if self._servers.device.is_gone:
                raise self._no_device()
            raise Ended("the device's process ended over what the cell asked of it: an operator with arguments that PyTorch "
                        "cannot take, or one that takes too long or too much memory?")
        return self._read(asked.folder, asked.exercise)

    def _no_device(self) -> GradingError:
        return GradingError(f"the device's process is gone: {self._servers.device.why_gone()}. Grade again; if that does "
                            "not help, see what gapless doctor says")


@contextlib.contextmanager
def _closing(ends: Iterable[socket.socket]) -> Iterator[list[socket.socket]]:
    """These sockets, closed afterwards."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(end) for end in ends]


class _Cores:
    """The processors that this process may run on, and how many exercises each has."""

    def __init__(self):
        try:
            self._busy = dict.fromkeys(sorted(os.sched_getaffinity(0)), 0)
        except AttributeError:  # not on macOS
            self._busy = {}
        self._lock = threading.Lock()
        self.jobs = 0  # at once

    @contextlib.contextmanager
    def one(self) -> Iterator[int | None]:
        """The least busy one, for the time inside; None where they cannot be distinguished."""
        with self._lock:
            core = min(self._busy, key=self._busy.__getitem__, default=None)
            self.jobs += 1
            if core is not None:
                self._busy[core] += 1
        try:
            yield core
        finally:
            with self._lock:
                self.jobs -= 1
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

    def is_done(self, seconds: float) -> bool:
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
        folder = self._folders.new(exercise.name)
        save_plan(plan, folder / "plan.npz")
        job = {"lessons": self._package, "lesson": self._lesson.id, "program": self._lesson.program,
               "exercise": exercise.name, "source": source,
               "device": self._device, "order": order}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        packages = dict.fromkeys(("gapless", self._package.partition(".")[0], "torch", "numpy", *self._lesson.packages))
        ending = run_confined("gapless.grading.sandbox.own_process", [str(folder)],
                              shown=[place_of(name) for name in packages], writable=[folder],
                              environment={VARIABLE: self._device}, gpu=self._device.startswith("cuda"),
                              limits=dataclasses.replace(self._limits, seconds=self._seconds(exercise)),
                              confinement=self._confinement, stopped=self._stopped)
        if ending.kind == "broken":
            raise Broken(ending.detail or "no reason given")
        if ending.kind != "finished":
            raise Ended(_ENDINGS[ending.kind].format(detail=ending.detail))
        return self._read(folder, exercise)


class _DeviceIsDone(Exception):
    """The device's process has ended: there is nothing more to wait for."""
