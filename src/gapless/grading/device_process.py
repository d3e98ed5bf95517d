"""The device's process: it has the values, the clocks and what is right to ask, and never runs a learner's code.

``main`` is a server that has imported everything once; for each exercise it forks a process that asks the learner's function
over a socket, measures it, and leaves the evidence in a folder.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import socket
import sys
import traceback
from pathlib import Path

import numpy as np

from .worker import BROKEN, FINISHED, READY

EVIDENCE = "evidence"  # the folder that the evidence is left in
DONE, FAILED = b"d", b"f"
_LONGEST_JOB = 1 << 16


def main(control: str, lessons: str) -> None:
    """Serve jobs that come over the socket ``control`` (its number) until it closes. ``lessons``: the package of the lessons.

    A job is JSON with two file descriptors: the socket to the learner's process, and a pipe on which ``DONE`` or ``FAILED``
    is said, with the reason. Keys: ``lesson``, ``exercise``, ``source`` (of the cell; None: its slow function is put to the test),
    ``device``, ``order`` (a seed), ``folder`` with ``plan.npz``.
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
    children: set[int] = set()
    while True:
        text, handed, _, _ = socket.recv_fds(ears, _LONGEST_JOB, 2)
        with contextlib.suppress(ChildProcessError):
            while children and (ended := os.waitpid(-1, os.WNOHANG)[0]):
                children.discard(ended)
        if not text:
            break
        channel, done = handed
        child = os.fork()
        if child == 0:
            ears.close()
            _do(json.loads(text), lessons, channel, done)
        children.add(child)
        os.close(channel)
        os.close(done)
    say(FINISHED)
    os._exit(0)


def _warm_up(lessons: str) -> None:
    """Import what jobs need, so that each begins with it. One thread: a pool of them would not live through a fork."""
    import torch

    torch.set_num_threads(1)
    from ..course import gather  # noqa: F401
    from ..vgpu.backend import enable
    from ..vgpu.state import shape_only

    importlib.import_module(lessons)
    enable()
    with shape_only():  # its first use imports much of PyTorch
        pass


def _do(job: dict, lessons: str, channel: int, done: int) -> None:
    """One job, in a process of its own; does not return."""
    try:
        evidence = _ask(job, lessons, channel)
        folder = Path(job["folder"]) / EVIDENCE
        folder.mkdir()
        evidence.save(folder)
        said = DONE
    except BaseException:
        said = FAILED + traceback.format_exc()[-4000:].encode(errors="replace")
    with contextlib.suppress(OSError):
        os.write(done, said)
    os._exit(0)


def _ask(job: dict, lessons: str, channel: int):
    from ..course.cells import CellError
    from ..course.evidence import Evidence, load_plan
    from ..course.gather import gather
    from ..measure.device import device as find_device
    from ..measure.device import device_name
    from ..vgpu.wire import Channel
    from .remote import RemoteStage, StageGone

    exercise = importlib.import_module(lessons).find_lesson(job["lesson"]).exercises[job["exercise"]]
    device = find_device(job["device"])
    stage = RemoteStage(Channel(socket.socket(fileno=channel)))
    plan = load_plan(Path(job["folder"]) / "plan.npz")
    evidence = Evidence(exercise.name, job["device"], device_name(device))
    try:
        stage.load(job["source"], exercise.name)
        return gather(exercise, stage, plan, device, name=job["device"], order=np.random.default_rng(job["order"]))
    except CellError as error:
        evidence.error = str(error)
    except StageGone as error:
        evidence.error = f"its process ended before the checks were done ({error}): an os._exit or a crash in the cell?"
    return evidence


def share_a_core() -> set[int] | None:
    """A processor for a learner's process and its device's, which take turns: there neither has to be woken on another, which
    takes ten times as long. None where the system does not let one choose."""
    try:
        return {random.choice(sorted(os.sched_getaffinity(0)))}
    except (AttributeError, OSError):
        return None
