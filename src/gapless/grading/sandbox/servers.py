"""The two processes from which those of a grading are forked, and the folders that they share.

They take seconds to start, as they import PyTorch. A process that grades many submissions one after another keeps them
(:func:`keep_servers`). Then each learner's process is behind a fence of its own (:mod:`.enclosure`), so that no submission
can meet another.
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
from collections.abc import Callable, Iterator
from pathlib import Path

from ...course.exercise import Exercise, Lesson
from ...files import temporary_folder
from ...measure.device import VARIABLE
from ...vgpu import card
from ...vgpu.hardware.cards.cardfile import card_to_json
from .confine import Confinement, GradingError, Limits, can_fence, fence_of, place_of, run_confined
from .package import write_package

_MOST_LENDINGS = 100  # what is forked from may grow, and counts what was written


class Servers:
    """The device's server and the learners', for one lesson and device, while the card in use is this one.

    ``fenced``: each learner's process has a fence of its own in the sandbox. ``card``: as in a card file. ``learner``:
    what every learner's process
    gets. ``folders``: for jobs, where the device's processes can write to. ``spoilt``: set where
    something came to no good end, so that no other submission gets them. Raises GradingError for a lesson whose functions a
    learner's process could not find.
    """

    def __init__(self, lesson: Lesson, package: str, device: str, limits: Limits, confinement: Confinement,
                 fenced: bool = False):
        self._package, self._device, self._confinement = package, device, confinement
        self.card = card_to_json(card())
        self.learner = {"card": self.card, "names": place(lesson.names), "imported_late": lesson.imported_late}
        asks = (exercise.asked.ask for exercise in lesson.exercises.values() if exercise.asked.ask is not None)
        modules = {"gapless.grading.sandbox.worker", *(function.__module__ for function in (lesson.names, *asks))}
        self._temporary = contextlib.ExitStack()
        self._root = self._temporary.enter_context(temporary_folder())
        self._shown = write_package(self._root / "package", modules)
        jobs = self._root / "jobs"
        jobs.mkdir()
        self.folders = Folders(jobs)
        self.spoilt = False
        output = self._root / "learners.output.txt"
        output.touch()
        places = dict.fromkeys(("gapless", package.partition(".")[0]))
        self.device = Server(
            "gapless.grading.sandbox.device_process", lambda control: [str(control), package, lesson.id],
            shown=[place_of(name) for name in places], writable=[jobs], environment={VARIABLE: device},
            confinement=confinement, limits=_for_a_server(limits))
        fence = fence_of(limits, confinement) if fenced else None
        self.learners = Server(
            "gapless.grading.sandbox.worker",
            lambda control: [json.dumps({**self.learner, "control": control, "fence": fence}), str(output)],
            **self.around_learners(output), limits=_for_a_server(limits), fenced=fenced)

    def around_learners(self, output: Path) -> dict:
        """The sandbox around a learner's process that prints to the file ``output``, as options of :func:`run_confined`."""
        return {"shown": self._shown, "hidden": _installed("gapless", self._package.partition(".")[0]), "writable": [output],
                "environment": {VARIABLE: self._device}, "confinement": self._confinement}

    @property
    def is_good(self) -> bool:
        """Whether another submission may have them."""
        return not (self.spoilt or self.device.is_gone or self.learners.is_gone)

    def close(self) -> None:
        """End both, and leave nothing behind."""
        for server in (self.learners, self.device):
            server.close()
        self._temporary.close()


# -- kept from one submission to the next -----------------------------------------------------------


class _Keeper:
    """Lends one pair, as long as the same is asked for."""

    def __init__(self):
        self._servers: Servers | None = None
        self._key: tuple | None = None
        self._lendings = 0
        self._lent = threading.Lock()

    @contextlib.contextmanager
    def lend(self, lesson: Lesson, package: str, device: str, limits: Limits, confinement: Confinement) -> Iterator[Servers]:
        key = (lesson.id, lesson.program, package, device, repr(card()), limits, confinement)
        with self._lent:  # to one at a time: they are for different learners
            if key != self._key or not self._servers.is_good or self._lendings >= _MOST_LENDINGS:
                self.close()
                self._servers = Servers(lesson, package, device, limits, confinement, fenced=True)
                self._key, self._lendings = key, 0
            self._lendings += 1
            yield self._servers

    def close(self) -> None:
        servers, self._servers, self._key = self._servers, None, None
        if servers is not None:
            servers.close()


_keeper: _Keeper | None = None


@contextlib.contextmanager
def keep_servers() -> Iterator[None]:
    """Inside, servers are kept from one submission to the next, where a fence within the sandbox can be had."""
    global _keeper
    before, _keeper = _keeper, _Keeper()
    try:
        yield
    finally:
        keeper, _keeper = _keeper, before
        keeper.close()


@contextlib.contextmanager
def lent(lesson: Lesson, package: str, device: str, limits: Limits, confinement: Confinement) -> Iterator[Servers]:
    """Servers for one submission, arguments as for :class:`Servers`: kept ones, else new ones that are closed afterwards."""
    if _keeper is not None and can_fence(confinement):
        with _keeper.lend(lesson, package, device, limits, confinement) as servers:
            yield servers
        return
    servers = Servers(lesson, package, device, limits, confinement)
    try:
        yield servers
    finally:
        servers.close()


# -- one of the two ---------------------------------------------------------------------------------


class Server:
    """A confined process that forks one for each job. It gets them over a socket, whose number is ``control``."""

    def __init__(self, module: str, arguments: Callable[[int], list[str]], **options):
        self._mouth, ears = socket.socketpair()
        self._closed = threading.Event()
        self._tree: Callable[[], list] = list
        self._failure: Exception | str | None = None
        self._thread = threading.Thread(target=self._run, args=(module, arguments, ears, options), daemon=True)
        self._thread.start()

    def _run(self, module: str, arguments: Callable[[int], list[str]], ears: socket.socket, options: dict) -> None:
        try:
            ending = run_confined(module, arguments(ears.fileno()), pass_fds=[ears.fileno()], stopped=self._closed.is_set,
                                  started=self._has_started, **options)
            self._failure = f"{ending.kind}: {ending.detail}"
        except Exception as error:
            self._failure = error
        finally:
            ears.close()

    def _has_started(self, tree: Callable[[], list]) -> None:
        self._tree = tree

    def processes(self) -> list:
        """It and what it has forked, as psutil's."""
        return self._tree()

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


class Folders:
    """Makes a folder for each job in ``place``."""

    def __init__(self, place: Path):
        self._place = place
        self._numbers = itertools.count()
        self._numbering = threading.Lock()

    def new(self, name: str) -> Path:
        """An empty one, whose name is a number and ``name``."""
        with self._numbering:
            folder = self._place / f"{next(self._numbers)}-{name}"
        folder.mkdir(parents=True)
        return folder


def told(exercise: Exercise, core: int | None) -> dict:
    """What the learner's process for ``exercise`` also gets. ``core``: the processor to run on."""
    return {"ask": None if exercise.asked.ask is None else place(exercise.asked.ask), "core": core}


def place(function: Callable) -> str:
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
