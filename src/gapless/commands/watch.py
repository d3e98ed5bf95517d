"""``gapless watch``: a lesson's exercises checked again whenever its notebook is saved."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .fresh import Checked, check_in_fresh_process

POLL_SECONDS = 0.5
SETTLED_SECONDS = 0.3  # a file that has not changed for so long is taken to be whole
GIVEN_UP_SECONDS = 3.0  # … and one that cannot be read for so long is reported


def add_parser(commands) -> None:
    """Add ``watch`` to the command line."""
    parser = commands.add_parser(
        "watch", help="check again whenever a notebook is saved",
        description="Watch a lesson's notebook, or all in a folder and the folders in it, and check an exercise again "
                    "whenever a save has changed its cell. Each check has a process of its own. Ctrl-C ends it.")
    parser.add_argument("target", metavar="FOLDER_OR_NOTEBOOK", nargs="?", default=".", type=Path,
                        help="what to watch (default: this folder)")
    parser.add_argument("--device", metavar="D",
                        help="cuda, vgpu, vgpu:a100, … (default: GAPLESS_DEVICE, else the best there is)")
    parser.add_argument("--time-limit", metavar="SECONDS", type=float, default=120.0,
                        help="for one exercise, starting Python included (default: %(default)g)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Watch until Ctrl-C; 2 where there is nothing to watch. Raises UnknownDevice."""
    from ..course.notebooks.submission import SubmissionError
    from ..measure.device import device as choose_device
    from ..measure.device import device_name

    device = choose_device(arguments.device)

    def check(lesson_id: str, name: str, source: str, outdated: Callable[[], bool]) -> Checked | None:
        return check_in_fresh_process(lesson_id, name, source, arguments.device, arguments.time_limit, outdated)

    try:
        watch = Watch(arguments.target, check)
        simulated = " (simulated)" if device.type == "vgpu" else ""
        print(f"Checking on {device_name(device)}{simulated}. Save a notebook to check what you changed; Ctrl-C ends.",
              flush=True)
        watch.begin()
        while True:
            time.sleep(POLL_SECONDS)
            watch.poll()
    except SubmissionError as error:
        print(f"gapless watch: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nNo longer watching.")
        return 0


class Watch:
    """The state of watching ``target``: what each notebook looked like when it was last read.

    ``check(lesson id, exercise, source, outdated)`` checks one exercise; it returns None where ``outdated()`` says that the
    source has changed meanwhile. ``say`` prints. Raises SubmissionError where there is nothing to watch.
    """

    def __init__(self, target: Path, check: Callable, say: Callable[[str], None] | None = None,
                 clock: Callable[[], float] = time.monotonic):
        from ..course.notebooks.submission import SubmissionError
        from .find import find_notebook

        self._target = target if target.is_dir() else find_notebook(target)
        self._check, self._say, self._clock = check, say or _print, clock
        self._seen: dict[Path, tuple] = {}
        self._cells: dict[Path, dict[str, str]] = {}
        self._unsettled: dict[Path, tuple[tuple, float, float]] = {}
        for path in self._notebooks():
            signature = _signature(path)
            try:
                _, cells = _read(path)
            except SubmissionError:
                if not self._target.is_dir():
                    raise
                continue
            self._seen[path], self._cells[path] = signature, cells
        if not self._cells:
            raise SubmissionError(f"there is no lesson's notebook in {target}, nor in the folders directly in it")

    def begin(self) -> None:
        """Say what is watched. Of a single notebook, check what the learner has written so far."""
        from ..course.notebooks.stub import handed_out

        for path in self._cells:
            self._say(f"watching {path}")
        if self._target.is_dir():
            return
        lesson, cells = _read(self._target)
        self._check_all(self._target, lesson, [name for name in lesson.exercises
                                               if name in cells and cells[name] != handed_out(lesson.exercises[name])])

    def poll(self) -> None:
        """Look once; check what has changed since."""
        now = self._clock()
        for path in self._notebooks():
            signature = _signature(path)
            if signature is None or signature == self._seen.get(path):
                self._unsettled.pop(path, None)
                continue
            last, since, first = self._unsettled.get(path, (None, now, now))
            if signature != last:
                self._unsettled[path] = signature, now, first
            elif now - since >= SETTLED_SECONDS:
                self._changed(path, signature, now - first >= GIVEN_UP_SECONDS)

    def _changed(self, path: Path, signature: tuple, complain: bool) -> None:
        from ..course.notebooks.submission import SubmissionError

        try:
            lesson, cells = _read(path)
        except SubmissionError as error:
            if complain:
                if path in self._cells:
                    self._say(f"{error}")
                self._seen[path] = signature
            return  # perhaps half written: looked at again in the next round
        self._seen[path] = signature
        before, self._cells[path] = self._cells.get(path, {}), cells
        for name in lesson.exercises:
            if name in before and name not in cells:
                self._say(f"{name}: no code cell begins with the line '# exercise: {name}' any more. To get it back: "
                          f"gapless reset {path} {name}")
        self._check_all(path, lesson, [name for name in lesson.exercises
                                       if name in cells and cells[name] != before.get(name)])

    def _check_all(self, path: Path, lesson, names: list[str]) -> None:
        if not names:
            return
        from ..learner.progress import progress

        self._say(f"\n{datetime.datetime.now():%H:%M:%S} {path}")
        for name in names:
            source = self._cells[path][name]
            checked = self._check(lesson.id, name, source, functools.partial(self._is_outdated, path, name, source))
            if checked is None:
                # The next round sees the new text, and would not see a text that is back to what it was.
                self._cells[path].pop(name)
                self._say(f"  {name}: changed meanwhile")
                continue
            for line in _lines(lesson, name, checked):
                self._say(line)
        so_far = progress(lesson.id)
        self._say(f"  best so far: {so_far.best:g} of {so_far.points:g} points"
                  + (". All of this lesson is done." if so_far.lessons[0].state == "done" else ""))

    def _is_outdated(self, path: Path, name: str, source: str) -> bool:
        from ..course.notebooks.submission import SubmissionError

        signature = _signature(path)
        if signature is None or signature == self._seen.get(path):
            return False
        try:
            return _read(path)[1].get(name) != source
        except SubmissionError:
            return False

    def _notebooks(self) -> Iterator[Path]:
        if not self._target.is_dir():
            yield self._target
            return
        for pattern in ("*.ipynb", "*/*.ipynb"):
            for path in sorted(self._target.glob(pattern)):
                if not any(part.startswith(".") for part in path.relative_to(self._target).parts):
                    yield path


def _print(text: str) -> None:
    print(text, flush=True)


def _signature(path: Path) -> tuple | None:
    """Changes whenever the file does; None where there is none, as in the middle of a rename."""
    with contextlib.suppress(OSError):
        stat = path.stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
    return None


def _read(path: Path):
    """(lesson, exercise → source). Raises SubmissionError, also for a notebook without any exercise."""
    from ..course.notebooks.submission import SubmissionError
    from .find import open_lesson

    lesson, submission = open_lesson(path)
    if not submission.cells:
        raise SubmissionError(f"{path} has no exercise of lesson {lesson.id}")
    return lesson, submission.cells


def _lines(lesson, name: str, checked: Checked) -> Iterator[str]:
    """What is said of one checked exercise: a line with a bar, what failed first, and the next hint."""
    from ..learner.progress import bar
    from ..learner.progress_file import read_progress

    points = lesson.exercises[name].max_points
    width = max(len(each) for each in lesson.exercises)
    state = "passed" if checked.passed else "not yet"
    yield f"  {name:<{width}}  {bar(checked.earned, points)} {checked.earned:g} of {points:g}  {state}"
    if checked.remark:
        yield f"    {checked.remark}"
    if checked.passed:
        return
    columns = max(60, shutil.get_terminal_size().columns - 1)
    yield from textwrap.wrap(checked.reason, columns, initial_indent="    ", subsequent_indent="    ", max_lines=4,
                             placeholder=" …")
    hints = len(lesson.exercises[name].teaching.hints)
    record = read_progress()[0].get(lesson.id, {}).get(name)
    taken = record.hints if record is not None else 0
    yield (f"    next: hint {taken + 1} of {hints}, lesson.hint(\"{name}\")" if taken < hints
           else "    all hints are taken: read them again, and the check's whole message in the notebook")
