"""Having a learner's function asked behind the fence: which processes there are, and who talks to whom.

On the virtual GPU there are two beside this one. The learner's (:mod:`.worker`) runs the cell and holds handles to tensors;
it is shown nothing but what it needs (:mod:`.package`). The device's (:mod:`.device_process`) holds values, clock and card,
asks the function, and leaves evidence; it never runs the learner's code. Between them is a socket. On a real GPU the
learner's process has the device too (:mod:`.own_process`): what is measured there is measured beside code that could change
it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ..course.evidence import Evidence, EvidenceError, Plan, save_plan
from ..course.exercise import Exercise, Lesson
from ..files import temporary_folder
from ..measure.device import VARIABLE
from ..vgpu import card
from ..vgpu.hardware.cardfile import card_to_json
from .confine import Confinement, Ending, GradingError, Limits, place_of, run_confined
from .device_process import DONE, EVIDENCE, FAILED
from .package import write_package

_ENDINGS = {
    "timeout": "it was not done within {detail}: does every loop in the cell come to an end?",
    "memory": "it took more than {detail} of memory: what does the cell allocate, and does it let go of it?",
    "processes": "it started {detail}; an exercise needs none",
    "files": "it wrote {detail}; an exercise needs none",
    "ended": "its process ended before the checks were done ({detail}): an os._exit or a crash in the cell?",
}
_LAST_SECONDS = 30.0  # for the device's process to write down what it has seen


class Ended(Exception):
    """The learner's process was ended, or ended itself; the message is for the learner."""


class Broken(Exception):
    """Code of ours raised; the message is its traceback."""


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

    def ask(self, exercise: Exercise, plan: Plan, source: str, order: int) -> Evidence:
        """What was seen of the function in the cell ``source``. Raises Ended, Broken, GradingError."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave nothing behind."""
        self._temporary.close()

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
    """The learner's process holds handles, and the device is behind a boundary."""

    def __init__(self, *args):
        super().__init__(*args)
        self._card = card_to_json(card())
        self._shown = write_package(self._root / "package", self._modules())
        self._jobs = self._root / "jobs"
        self._jobs.mkdir()
        self._mouth, ears = socket.socketpair()
        self._closed = threading.Event()
        self._failure: Exception | None = None
        try:
            self._cores = itertools.cycle(sorted(os.sched_getaffinity(0)))
        except AttributeError:  # not on macOS
            self._cores = itertools.repeat(None)
        self._server = threading.Thread(target=self._serve, args=(ears,), daemon=True)
        self._server.start()

    def _modules(self) -> set[str]:
        """What the learner's process needs."""
        asks = (exercise.ask for exercise in self._lesson.exercises.values() if exercise.ask is not None)
        return {"gapless.grading.worker", *(function.__module__ for function in (self._lesson.names, *asks))}

    def _serve(self, ears: socket.socket) -> None:
        places = dict.fromkeys(("gapless", self._package.partition(".")[0]))
        try:
            run_confined("gapless.grading.device_process", [str(ears.fileno()), self._package],
                         shown=[place_of(name) for name in places], writable=[self._jobs], pass_fds=[ears.fileno()],
                         environment={VARIABLE: self._device}, confinement=self._confinement, stopped=self._closed.is_set,
                         limits=_for_a_server(self._limits))
        except Exception as error:
            self._failure = error
        finally:
            ears.close()

    def close(self) -> None:
        self._closed.set()
        self._mouth.close()
        self._server.join(30)
        super().close()

    def ask(self, exercise: Exercise, plan: Plan, source: str, order: int) -> Evidence:
        folder = self._new_folder(exercise)
        save_plan(plan, folder / "plan.npz")
        with self._numbering:
            core = next(self._cores)
        job = {"lesson": self._lesson.id, "exercise": exercise.name, "source": source, "card": self._card, "order": order,
               "core": core, "seconds": self._limits.seconds}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        own, theirs = socket.socketpair()
        said, say = os.pipe()
        try:
            with theirs:
                try:
                    socket.send_fds(self._mouth, [os.fsencode(folder / "job.json") + b"\n"], [theirs.fileno(), say])
                except OSError:
                    raise self._no_device() from None
                finally:
                    os.close(say)
            with own:
                ending = self._run_learner(exercise, own, folder, core, said)
            return self._evidence(exercise, folder, ending, self._last_word(said))
        finally:
            os.close(said)

    def _run_learner(self, exercise: Exercise, channel: socket.socket, folder: Path, core: int | None, said: int) -> Ending:
        """How the learner's process ended; "finished" also where the device has seen all there is to see."""
        def done() -> bool:
            if select.select([said], [], [], 0)[0]:
                raise _DeviceIsDone
            return self._stopped()

        output = self._root / f"{folder.name}.output.txt"
        output.touch()
        job = {"channel": channel.fileno(), "card": self._card, "core": core, "names": _place(self._lesson.names),
               "ask": None if exercise.ask is None else _place(exercise.ask)}
        try:
            return run_confined("gapless.grading.worker", [json.dumps(job), str(output)], shown=self._shown,
                                hidden=_installed("gapless", self._package.partition(".")[0]), writable=[output],
                                pass_fds=[channel.fileno()], environment={VARIABLE: self._device}, limits=self._limits,
                                confinement=self._confinement, stopped=done)
        except _DeviceIsDone:
            return Ending("finished")

    def _last_word(self, said: int) -> bytes:
        """What the device's process says in the end; nothing where it has none."""
        text, deadline = b"", time.monotonic() + _LAST_SECONDS
        while select.select([said], [], [], max(0.0, deadline - time.monotonic()))[0]:
            block = os.read(said, 65536)
            if not block:
                return text
            text += block
        return text

    def _evidence(self, exercise: Exercise, folder: Path, ending: Ending, said: bytes) -> Evidence:
        if ending.kind == "broken":
            raise Broken(ending.detail or "no reason given")
        if ending.kind != "finished":
            raise Ended(_ENDINGS[ending.kind].format(detail=ending.detail))
        if said.startswith(FAILED):
            raise Broken(said[len(FAILED):].decode(errors="replace"))
        if said != DONE:
            if not self._server.is_alive():
                raise self._no_device()
            raise Ended("the device's process ended over what the cell asked of it: an operator with arguments that PyTorch "
                        "cannot take, or one that takes too long or too much memory?")
        return self._read(folder, exercise)

    def _no_device(self) -> GradingError:
        self._server.join(5)
        return GradingError(f"the device's process is gone: {self._failure or 'it said nothing'}. Grade again; if that does "
                            "not help, see what gapless doctor says")


class OwnProcess(Asker):
    """The learner's process has everything: the way on a real GPU."""

    def ask(self, exercise: Exercise, plan: Plan, source: str, order: int) -> Evidence:
        folder = self._new_folder(exercise)
        save_plan(plan, folder / "plan.npz")
        job = {"lessons": self._package, "lesson": self._lesson.id, "exercise": exercise.name, "source": source,
               "device": self._device, "order": order}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        packages = dict.fromkeys(("gapless", self._package.partition(".")[0], "torch", "numpy", *self._lesson.packages))
        ending = run_confined("gapless.grading.own_process", [str(folder)], shown=[place_of(name) for name in packages],
                              writable=[folder], environment={VARIABLE: self._device}, gpu=self._device.startswith("cuda"),
                              limits=self._limits, confinement=self._confinement, stopped=self._stopped)
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
    """What the device's processes may use, all together."""
    at_once = os.cpu_count() or 1
    return Limits(seconds=24 * 3600.0, start_seconds=limits.start_seconds, memory_bytes=limits.memory_bytes * at_once,
                  file_bytes=limits.file_bytes, processes=1000, threads=4000, disk_bytes=limits.disk_bytes * at_once,
                  files=limits.files * 100, temporary_bytes=limits.temporary_bytes)


