"""While the learner reads, another process finds out what a check needs besides the learner's function."""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import suppress

from ..course.exercise import Exercise, Lesson
from ..garbage import no_collection
from .known import Found
from .marked_cell import ipython_shell

_IDLE_SECONDS = 2.0  # for which a kernel runs no cell: somebody reads

_Key = tuple[str, str]  # of a program and its exercise


class Ahead:
    """Of one lesson on the virtual GPU, ``device`` as :class:`Notebook` takes it. What is found lies in a file without a
    name: nothing is left of it when both processes have ended."""

    def __init__(self, lesson_id: str, device: str | None):
        self._command = [sys.executable, "-m", "gapless.learner.find_out", str(os.getpid()), lesson_id, device or ""]
        self._process: subprocess.Popen | None = None
        self._read = 0  # bytes of the file
        self._found: dict[_Key, bytes] = {}

    def start_when_idle(self) -> None:
        """Start once a notebook's kernel runs no cell for two seconds. Does nothing elsewhere."""
        shell, timers = ipython_shell(), []
        if shell is None or os.name != "posix":
            return

        def wait(*_):
            stop()
            with suppress(RuntimeError):  # a terminal's IPython has no loop while it waits for input
                timers.append(asyncio.get_running_loop().call_later(_IDLE_SECONDS, start))

        def stop(*_):
            while timers:
                timers.pop().cancel()

        def start():
            shell.events.unregister("post_run_cell", wait)
            shell.events.unregister("pre_run_cell", stop)
            self.start()

        shell.events.register("post_run_cell", wait)
        shell.events.register("pre_run_cell", stop)

    def start(self) -> None:
        """Start the other process."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  both processes hold it open
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=self._file,
                                         stderr=subprocess.DEVNULL)

    def wait(self) -> None:
        """Until all is found out."""
        if self._process is not None:
            self._process.wait()

    def found(self, lesson: Lesson, exercise: Exercise) -> Found | None:
        """What has been found out of the exercise: all of it, or None where that is not done yet."""
        if self._process is None:
            return None
        # Without seeking: the two processes have one position in the file, where the other one writes.
        begin, number = self._read, self._file.fileno()
        stream = io.BytesIO(os.pread(number, os.fstat(number).st_size - begin, begin))
        with suppress(EOFError, pickle.UnpicklingError):  # the last one may not be written to its end
            while True:
                key, pickled = pickle.load(stream)
                self._found[key] = pickled
                self._read = begin + stream.tell()
        pickled = self._found.pop((lesson.program, exercise.name), None)
        if pickled is None:
            return None
        with no_collection():  # a trace is some hundred thousand objects: looking through them took longer than making them
            return pickle.loads(pickled)
