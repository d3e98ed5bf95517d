"""The device's process: it has the values, the clocks and what is right to ask, and never runs a learner's code.

``main`` is a server that has imported everything once; for each exercise it forks a process that asks the learner's function
over a socket, measures it, and leaves the evidence in a folder.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

from .worker import BROKEN, FINISHED, READY, run_on

EVIDENCE = "evidence"  # the folder that the evidence is left in
DONE, FAILED = b"d", b"f"


def main(control: str, lessons: str) -> None:
    """Serve jobs that come over the socket ``control`` (its number) until it closes. ``lessons``: the package of the
    lessons.

    A job is the path of a JSON file, with two file descriptors: the socket to the learner's process, and a pipe on which
    ``DONE`` or ``FAILED`` is said, with the reason. Its keys: ``lesson``, ``exercise``, ``source`` of the cell, ``card`` as
    in a card file, ``order`` (a seed), ``core`` (the processor to run on, or None), ``seconds`` of processor time. Beside
    it lies ``plan.npz``, and there the evidence is left.
    """
    token = sys.stdin.readline().strip()

    def say(word: str, text: str = "") -> None:
        sys.stdout.write(json.dumps([token, word, text]) + "\n")
        sys.stdout.flush()

    try:
        _warm_up(lessons)
        ears = socket.socket(fileno=int(control))
    except BaseException:
        say(BROKEN, traceback.format_exc())
        os._exit(1)
    say(READY)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended: the pipe says what is to be said
    while True:
        text, handed, _, _ = socket.recv_fds(ears, 4096, 2)
        if not text:
            break
        channel, done = handed
        if os.fork() == 0:
            ears.close()
            _do(Path(os.fsdecode(text.rstrip(b"\n"))), lessons, channel, done)
        os.close(channel)
        os.close(done)
    say(FINISHED)
    os._exit(0)


def _warm_up(lessons: str) -> None:
    """Import what jobs need, so that each begins with it. One thread: a pool of them would not live through a fork."""
    import torch

    torch.set_num_threads(1)
    from ..course import gather  # noqa: F401
    from ..vgpu import enable, shape_only

    importlib.import_module(lessons)
    enable()
    with shape_only():  # its first use imports much of PyTorch
        pass


def _do(path: Path, lessons: str, channel: int, done: int) -> None:
    """One job, in a process of its own; does not return."""
    try:
        evidence = _ask(json.loads(path.read_text(encoding="utf-8")), path.parent, lessons, channel)
        folder = path.parent / EVIDENCE
        folder.mkdir()
        evidence.save(folder)
        said = DONE
    except BaseException:
        said = FAILED + traceback.format_exc()[-4000:].encode(errors="replace")
    with contextlib.suppress(OSError):
        os.write(done, said)
    os._exit(0)


def _ask(job: dict, folder: Path, lessons: str, channel: int):
    import numpy as np

    from ..course.cells import CellError
    from ..course.evidence import Evidence, load_plan
    from ..course.gather import gather
    from ..vgpu import card, enable
    from ..vgpu.hardware.cardfile import card_from_json
    from ..vgpu.wire import Channel
    from .remote import RemoteStage, StageGone

    run_on(job["core"])
    _limit_time(job["seconds"])
    device = enable(card_from_json(job["card"]))
    exercise = importlib.import_module(lessons).find_lesson(job["lesson"]).exercises[job["exercise"]]
    plan = load_plan(folder / "plan.npz")
    evidence = Evidence(exercise.name, "vgpu", card().name)
    try:
        stage = RemoteStage(Channel(socket.socket(fileno=channel)), precision=exercise.precision)
        stage.load(job["source"], exercise.name)
        return gather(exercise, stage, plan, device, order=np.random.default_rng(job["order"]))
    except CellError as error:
        evidence.error = str(error)
    except StageGone as error:
        evidence.error = f"its process ended before the checks were done ({error}): an os._exit or a crash in the cell?"
    return evidence


def _limit_time(seconds: float) -> None:
    """No operator may keep this process at work for ever."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 10,) * 2)
