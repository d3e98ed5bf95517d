"""The device's process: it has the values, the clocks and what is right to ask, and never runs a learner's code.

``main`` is a server that has imported everything once; for each exercise it forks a process that asks the learner's function
over a socket, measures it, and leaves the evidence in a folder.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path

from .boot import limit
from .forks import serve
from .worker import BROKEN, FINISHED, READY, run_on

_LARGEST_FILE_BYTES = 64 * 2**20  # of the evidence
EVIDENCE = "evidence"  # the folder that the evidence is left in
# What is said in the end: there is evidence; there is, and the learner's process ended too early; code of ours raised.
DONE, GONE, FAILED = b"d", b"g", b"f"


def main(control: str, lessons: str, lesson: str) -> None:
    """Serve jobs that come over the socket ``control`` (its number) until it closes, as :func:`.forks.serve` does.
    ``lessons``: the package of the lessons; ``lesson``: the one that most jobs are for.

    A job's ``path`` is that of a JSON file; with it come file descriptors: the socket to the learner's process, a pipe on
    which ``DONE``, ``GONE`` or ``FAILED`` is said, the last with the reason, and a socket for each rank of each case. Keys
    of the file: ``lesson``, ``program`` (the lesson's, or empty), ``exercise``, ``source`` of the cell, ``card`` as in a
    card file, ``order`` (a seed), ``core`` (the processor to run on, or None), ``seconds`` of processor time,
    ``memory_bytes``. Beside it lies ``plan.npz``, and there the evidence is left.
    """
    token = sys.stdin.readline().strip()

    def say(word: str, text: str = "") -> None:
        sys.stdout.write(json.dumps([token, word, text]) + "\n")
        sys.stdout.flush()

    try:
        _warm_up(lessons, lesson)
        ears = socket.socket(fileno=int(control))
    except BaseException:
        say(BROKEN, traceback.format_exc())
        os._exit(1)
    say(READY)
    serve(ears, lambda job, fds: _do(Path(job["path"]), lessons, *fds))
    say(FINISHED)
    os._exit(0)


def _warm_up(lessons: str, lesson: str) -> None:
    """Import what jobs need, so that each begins with it. One thread: a pool of them would not live through a fork."""
    import torch

    torch.set_num_threads(1)
    from ...course import gather  # noqa: F401
    from ...vgpu import enable
    from ...vgpu.process.forks import only_prepares

    found = importlib.import_module(lessons).find_lesson(lesson)
    enable()
    for module in (*found.packages, *found.imported_late):  # else each job imports them
        importlib.import_module(module)
    if any(exercise.setting.ranks for exercise in found.exercises.values()):
        from ...measure.several_gpus import import_for_all

        import_for_all()
    only_prepares()


def _do(path: Path, lessons: str, channel: int, done: int, *ends: int) -> None:
    """One job, in a process of its own; does not return."""
    try:
        evidence, said = _ask(json.loads(path.read_text(encoding="utf-8")), path.parent, lessons, channel, list(ends))
        folder = path.parent / EVIDENCE
        folder.mkdir()
        evidence.save(folder)
    except BaseException:
        said = FAILED + traceback.format_exc()[-4000:].encode(errors="replace")
    with contextlib.suppress(OSError):
        os.write(done, said)
    os._exit(0)


def _ask(job: dict, folder: Path, lessons: str, channel: int, ends: list[int]):
    import numpy as np

    from ...course.evidence import Evidence, load_plan
    from ...course.gather import gather
    from ...course.notebooks.cells import CellError
    from ...vgpu import card, enable
    from ...vgpu.boundary.wire import Channel
    from ...vgpu.hardware.cards.cardfile import card_from_json
    from .remote import RemoteStage, StageGone

    run_on(job["core"])
    # No operator may keep this process at work forever, or take the memory of the others.
    limit("CPU", int(time.process_time() + job["seconds"]) + 10)
    limit("FSIZE", _LARGEST_FILE_BYTES)
    limit("DATA", _data_bytes() + job["memory_bytes"])
    device = enable(card_from_json(job["card"]))
    exercise = importlib.import_module(lessons).find_lesson(job["lesson"]).of(
        [f"# program: {job['program']}"]).exercises[job["exercise"]]
    plan = load_plan(folder / "plan.npz")
    evidence = Evidence(exercise.name, "vgpu", card().name)
    try:
        stage = RemoteStage(Channel(socket.socket(fileno=channel)), ends)
        stage.load(job["source"], exercise.name)
        return gather(exercise, stage, plan, device, order=np.random.default_rng(job["order"])), DONE
    except CellError as error:
        evidence.error = str(error)
    except StageGone as error:
        evidence.error = f"its process ended before the checks were done ({error}): an os._exit or a crash in the cell?"
        return evidence, GONE
    return evidence, DONE


def _data_bytes() -> int:
    """What this process has of the memory that RLIMIT_DATA counts (proc(5): VmData)."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) * 1024
    return 0
