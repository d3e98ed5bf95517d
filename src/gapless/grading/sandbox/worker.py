"""The process that runs a learner's cell: ``main(…)``, started by :mod:`gapless.grading.sandbox.confine`.

On the virtual GPU it holds handles only: values, clock, card and judgement are in other processes. What the learner's code
prints goes to a file and has no part in the score.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import random
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

READY = "ready"
FINISHED = "finished"
BROKEN = "broken"  # our own code failed, the learner's is not to blame


def main(job: str, output: str) -> None:
    """Do the ``job`` (JSON) and end the process; what is printed goes to the file ``output``.

    ``job``: ``card``, as in a card file; ``names``, the place (``module:function``) of what the cell finds defined. For one
    exercise ``channel``, the number of an open socket to the device; ``ends``, those of a socket for each rank of each
    case that has some; ``ask``, the place of how its function is called
    (None: as a function of tensors); ``core``, the processor to run on, or None. For several ``control``, the number of a
    socket: ``ask`` and ``core`` come over it with each, and the descriptors of its ``channel``, of its output and of its
    ``ends``; ``fence``, what each is behind (:func:`.confine.fence_of`), or None.
    """
    token = sys.stdin.readline().strip()
    said = take_over_streams(output)

    def say(word: str, text: str = "") -> None:
        os.write(said, (json.dumps([token, word, text[-4000:]]) + "\n").encode())

    try:
        todo = json.loads(job)
        work = _prepare_many(todo, said) if "control" in todo else _prepare(todo)
    except BaseException:
        say(BROKEN, traceback.format_exc())
        os._exit(1)
    say(READY)
    with contextlib.suppress(EOFError, OSError):
        work()
    say(FINISHED)
    # Not a plain exit: nothing the learner's code registered to run at the end has a say.
    os._exit(0)


def take_over_streams(log: str) -> int:
    """Give learner's code an empty input and a file to print to; the number of what was standard output."""
    said = os.dup(1)
    os.set_inheritable(said, False)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    return said


def _prepare(job: dict) -> Callable[[], None]:
    """What does all that the device's side asks for, until that is gone."""
    import numpy
    import torch

    from ...vgpu.boundary.link import Link
    from ...vgpu.boundary.wire import Channel
    from ...vgpu.face.backend import enable
    from ...vgpu.hardware.cards.cardfile import card_from_json

    torch.set_num_threads(1)
    random.seed(0)  # that a score can be repeated, whatever the cell draws
    numpy.random.seed(0)
    device = enable(card_from_json(job["card"]))
    link = Link(Channel(socket.socket(fileno=job["channel"])))
    link.install()
    names = _find(job["names"])()
    run_on(job["core"])
    stage = _Stage(link, device, names, _find(job["ask"]) if job["ask"] else None, job.get("ends", []))
    return stage.serve


def _prepare_many(job: dict, said: int) -> Callable[[], None]:
    """Forks a process for each exercise that it gets."""
    import torch

    from ...course import plain, stage  # noqa: F401
    from ...vgpu.boundary import link, wire  # noqa: F401
    from ...vgpu.face.backend import enable
    from ...vgpu.hardware.cards.cardfile import card_from_json
    from ...vgpu.process.forks import only_prepares
    from .boot import harden
    from .enclosure import enclose
    from .forks import serve

    torch.set_num_threads(1)  # a pool of threads would not live through a fork
    for module in job["imported_late"]:  # else each process imports them
        importlib.import_module(module)
    enable(card_from_json(job["card"]))
    only_prepares()
    _find(job["names"])()
    control = socket.socket(fileno=job["control"])

    def begin(message: dict, fds: list[int]) -> None:
        channel, output, *ends = fds
        os.close(said)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        if (fence := job["fence"]) is not None:
            enclose(only_prepares, fence["temporary_bytes"], fence["files"], fence["folders"])
            harden(fence["limits"])
            os.chdir(fence["folders"][0])
        _prepare({**job, **message, "channel": channel, "ends": ends})()

    def work() -> None:
        control.send(b"r")  # from now on what is begun runs at once
        serve(control, begin)

    return work


def _find(place: str):
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def run_on(core: int | None) -> None:
    """Stay on one processor. A learner's process and its device's take turns: on the same one neither has to be woken on
    another, which takes ten times as long."""
    if core is not None:
        with contextlib.suppress(AttributeError, OSError):
            os.sched_setaffinity(0, {core})


class _Stage:
    """Does what the device's side asks for: load the cell, and each call's three parts."""

    def __init__(self, link, device, names: dict, ask, ends: list[int]):
        self._link, self._device, self._names, self._ask, self._ends = link, device, names, ask, ends
        self._stage: Any = None
        self._answer: object = None
        self._name = ""
        self._calls: dict[int, Any] = {}

    def serve(self) -> None:
        """Until the other side has ended. Raises EOFError, OSError."""
        while True:
            message, blob = self._link.receive()
            try:
                answer, content = getattr(self, f"_{message['do']}")(message, blob)
            except (EOFError, OSError):
                raise
            except BaseException as error:
                self._link.lines = False
                self._link.send(self._described(error))
            else:
                self._link.lines = False
                self._link.send({"return": answer}, content)

    def _load(self, message: dict, blob: bytes):
        from ...course.notebooks.cells import load_function
        from ...course.stage import LocalStage

        self._name = message["name"]
        function = load_function(message["source"], self._name, self._names)
        self._stage = LocalStage(function, self._device, self._ask)
        return None, b""

    def _ranks(self, message: dict, blob: bytes):
        """Fork a process for each rank of a case; it does there what this one does here, with a device of its own."""
        count = message["count"]
        ends, self._ends = self._ends[:count], self._ends[count:]
        for rank, end in enumerate(ends):
            if os.fork() == 0:
                with contextlib.suppress(EOFError, OSError):
                    for other in (*ends, *self._ends):
                        if other != end:  # else nobody would see where the other's process ends
                            os.close(other)
                    self._become_rank(rank, count, end)
                os._exit(0)
        for end in ends:
            os.close(end)
        return None, b""

    def _become_rank(self, rank: int, count: int, end: int) -> None:
        from ...vgpu.boundary import linked_groups
        from ...vgpu.boundary.link import Link
        from ...vgpu.boundary.wire import Channel
        from ...vgpu.process.state import state

        os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
                           "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"})
        state.forked = False  # its device is another one, at the other end
        self._link, self._calls = Link(Channel(socket.socket(fileno=end))), {}
        self._link.install()
        linked_groups.install(rank, count)
        self.serve()

    def _settle(self, message: dict, blob: bytes):
        self._calls, self._answer = dict.fromkeys(self._calls), None
        gc.collect()
        return None, b""

    def _begin(self, message: dict, blob: bytes):
        from ...course.stage import Given

        inputs = self._link.values(message["inputs"], blob)
        given = Given(inputs, message["options"], tuple(message["needs_grad"]), lambda text: self._link.send({"note": text}))
        number = len(self._calls)
        over = message["over"]
        self._calls[number] = self._stage.begin(given, None if over is None else self._calls[over])
        return number, b""

    def _run(self, message: dict, blob: bytes):
        self._calls[message["call"]].run()
        return None, b""

    def _finish(self, message: dict, blob: bytes):
        from ...course.plain import as_plain

        number = message["call"]
        # Kept until the next one: its tensors have to be there when the other side reads of them.
        self._answer = as_plain(self._calls[number].finish(), keep_tensors=True)
        self._calls[number] = None
        encoder = self._link.encoder()
        return encoder(self._answer), encoder.blob

    def _described(self, error: BaseException) -> dict:
        from ...course.notebooks.cells import CellError, describe_error
        from ...course.plain import Unusable

        if isinstance(error, (CellError, Unusable)):
            return {"raise": str(error), "kind": "cell" if isinstance(error, CellError) else "unusable"}
        if not isinstance(error, Exception):  # an exit, an interrupt
            return {"raise": f"the cell raised {type(error).__name__}", "kind": "cell"}
        return {"raise": describe_error(error, self._name)}
