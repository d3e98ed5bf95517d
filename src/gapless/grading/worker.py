"""The process that runs a learner's cell: ``main(folder)``, started by :mod:`gapless.grading.confine`.

It reads ``job.json`` and ``cases.npz`` from its folder, leaves the evidence there, and says over the standard
output it was started with how far it has come. Each word it says carries a token that came over standard
input, so that the learner's code cannot simply say it is finished. What the learner's code prints goes to
``output.txt`` and has no part in the score.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

READY = "ready"
FINISHED = "finished"
TAMPERED = "tampered"  # the learner's code changed the measuring tools: what they say is worth nothing
BROKEN = "broken"  # our own code failed, the learner's is not to blame
EVIDENCE = "evidence"  # the folder the evidence is left in


def main(folder: str) -> None:
    """Do the job in ``folder`` and end the process."""
    folder = Path(folder)
    token = sys.stdin.readline().strip()
    channel = _take_over_streams(folder / "output.txt")

    def say(word: str, text: str = "") -> None:
        os.write(channel, (json.dumps([token, word, text[-4000:]]) + "\n").encode())

    try:
        run = _prepare(folder)
    except BaseException:
        say(BROKEN, traceback.format_exc())
        os._exit(1)
    say(READY)
    try:
        evidence = run()
        _lift_memory_limit()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the learner's code may have put anything there
                stream.flush()
        target = folder / EVIDENCE
        target.mkdir()
        evidence.save(target)
        say(FINISHED)
    except Tampered as found:
        say(TAMPERED, "; ".join(found.args))
    except BaseException:
        say(BROKEN, traceback.format_exc())
    # Not a plain exit: nothing the learner's code registered to run at the end has a say.
    os._exit(0)


class Tampered(Exception):
    """The measuring tools were changed; the arguments say how."""


def _take_over_streams(log: Path) -> int:
    """Keep standard output for ourselves; give learner's code an empty input and a file to print to."""
    channel = os.dup(1)
    os.set_inheritable(channel, False)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    return channel


def _prepare(folder: Path):
    from ..course.cells import CellError, load_function
    from ..course.evidence import Evidence, load_cases
    from ..measure.device import device as find_device

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    lessons = importlib.import_module(job["lessons"])
    gathering = importlib.import_module("gapless.course.gather")
    lesson = lessons.find_lesson(job["lesson"])
    exercise = lesson.exercises[job["exercise"]]
    cases = load_cases(folder / "cases.npz")
    find_device(job["device"])  # it sets up the device, which would look like tampering later

    from .guard import Guard
    from .tamper import Fingerprint, watch_assignments

    _forget_answers(lessons.LESSONS.values())
    package = job["lessons"].split(".")[0]
    ours = __package__.split(".")[0], package
    guard = Guard([Path(importlib.import_module(name).__file__).parent for name in ours])
    changed: list[str] = []
    fingerprint = Fingerprint([package])
    watch_assignments(guard.by_learner, changed, [package])
    _limit_resources(job["memory_bytes"], job["file_bytes"])
    guard.install()

    def check_tools() -> None:
        found = [*changed, *fingerprint.changes()]
        if found:
            raise Tampered(*dict.fromkeys(found))

    def run() -> Evidence:
        evidence = Evidence(exercise.name, job["device"])
        try:
            before = gathering.measure_slow(exercise, job["device"])
            function = exercise.slow
            if job["source"] is not None:
                names = {**lesson.names(), "__builtins__": guard.builtins()}
                function = load_function(job["source"], exercise.name, names)
            check_tools()
            evidence = gathering.gather(exercise, function, cases, job["device"], before=before)
        except Tampered:
            raise
        except CellError as error:
            evidence.error = str(error)
        except BaseException as error:
            check_tools()
            # An exit, an interrupt, or an error too odd for gather: the learner's where it came through the cell.
            if isinstance(error, Exception) and not isinstance(error, MemoryError) and not _through_cell(error):
                raise
            evidence.error = f"the cell raised {type(error).__name__}"
        check_tools()
        return evidence

    return run


def _forget_answers(lessons) -> None:
    """Take out of this process what knows the right answers: judging, which needs them, is done elsewhere."""
    exercises = [exercise for lesson in lessons for exercise in lesson.exercises.values()]
    answers = {id(exercise.right) for exercise in exercises if exercise.right is not None}
    for exercise in exercises:
        object.__setattr__(exercise, "right", None)
    ours = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == __package__.partition(".")[0]]
    for module in ours:
        for name, value in list(vars(module).items()):
            if id(value) in answers:
                delattr(module, name)


def _through_cell(error: BaseException) -> bool:
    return any(frame.filename.startswith("<cell ") for frame in traceback.extract_tb(error.__traceback__))


def _limit_resources(memory_bytes: int | None, file_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows; the watchdog outside is all there is
        return

    def lower(which: int, value: int) -> None:
        hard = resource.getrlimit(which)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        with contextlib.suppress(ValueError, OSError):  # some systems allow no change of some limits
            resource.setrlimit(which, (value, hard))

    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, file_bytes)
    if memory_bytes is not None:
        lower(resource.RLIMIT_DATA, _private_bytes() + memory_bytes)


def _lift_memory_limit() -> None:
    """Evidence can be saved even where the learner's code holds all the memory it may have."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _private_bytes() -> int:
    """Private memory of this process now, in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmData:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
