"""A process that has imported everything once, and forks another for each job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable

from ...garbage import set_aside

_MOST_FDS = 64


def serve(control: socket.socket, begin: Callable[[dict, list[int]], None]) -> None:
    """Fork for every job that comes over ``control``, a stream socket, until it closes.

    Messages are JSON objects, one a line: ``{"begin": number, …}``, with open file descriptors, has ``begin(message, fds)``
    called in a process of its own, which ends with it; ``{"end": number}`` kills that process and its group.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended: their sockets tell
    set_aside()  # else each fork's collector would make copies of all that they share
    running: dict[str, int] = {}
    unread = b""
    while True:
        text, fds, _, _ = socket.recv_fds(control, 65536, _MOST_FDS)
        if not text:
            return
        *lines, unread = (unread + text).split(b"\n")
        for message in map(json.loads, lines):
            if "end" in message:
                pid = running.pop(message["end"], None)
                if pid is not None:
                    with contextlib.suppress(OSError):
                        os.killpg(pid, signal.SIGKILL)
                continue
            pid = running[message["begin"]] = os.fork()
            if pid == 0:
                _become_job(control, begin, message, fds)
            with contextlib.suppress(OSError):
                os.setpgid(pid, pid)  # here too: the first of both does it
            for fd in fds:
                os.close(fd)
            fds = []


def _become_job(control: socket.socket, begin: Callable[[dict, list[int]], None], message: dict, fds: list[int]) -> None:
    """Does not return."""
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        begin(message, fds)
    finally:
        os._exit(0)
