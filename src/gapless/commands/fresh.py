"""One exercise checked in a process of its own: what a cell breaks, leaks or never ends does not reach the caller."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..files import temporary_folder


@dataclass(frozen=True)
class Checked:
    """How a check ended. ``reason``: what did not pass first, in words, or ''. ``remark``: of anything else."""

    earned: float
    passed: bool
    reason: str
    remark: str = ""


def check_in_fresh_process(lesson_id: str, name: str, source: str, device: str | None, limit_s: float,
                           outdated: Callable[[], bool] = lambda: False) -> Checked | None:
    """Check the exercise ``name`` with the cell ``source`` by ``gapless check``; None where ``outdated()`` came true
    meanwhile, and the process was ended.

    The process is ended after ``limit_s`` seconds too, and with it what it started (on Windows the process alone).
    """
    with temporary_folder("gapless-watch-") as folder:
        notebook, out, err = (folder / each for each in (f"{lesson_id}.ipynb", "out", "err"))
        cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        notebook.write_text(json.dumps({"cells": [cell], "metadata": {"gapless": {"lesson": lesson_id}}, "nbformat": 4,
                                        "nbformat_minor": 4}), encoding="utf-8")
        # -P: a file torch.py in this folder is not PyTorch.
        command = [sys.executable, "-P", "-X", "utf8", "-m", "gapless.commands.cli", "check", str(notebook), name, "--json",
                   *(["--device", device] if device else [])]
        with out.open("wb") as stdout, err.open("wb") as stderr:
            # A session of its own, so that Ctrl-C reaches the watcher alone and all that the cell starts can be ended.
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                       start_new_session=os.name == "posix")
            try:
                ended = _wait(process, limit_s, outdated)
            finally:
                _end(process)
        if ended == "outdated":
            return None
        if ended == "late":
            return Checked(0, False, f"it was not done within {limit_s:g} s: does every loop in the cell end?")
        return _read(process.returncode, out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace"))


def _wait(process: subprocess.Popen, limit_s: float, outdated: Callable[[], bool]) -> str:
    end = time.monotonic() + limit_s
    while True:
        try:
            process.wait(timeout=0.2)
            return "done"
        except subprocess.TimeoutExpired:
            if outdated():
                return "outdated"
            if time.monotonic() > end:
                return "late"


def _end(process: subprocess.Popen) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def _read(status: int, out: str, err: str) -> Checked:
    # The cell may have written to standard output past Python.
    begin = out.find('{\n "lesson"')
    if status in (0, 1) and begin >= 0:
        found, _ = json.JSONDecoder().raw_decode(out, begin)
        exercise, = found["exercises"]
        failed = [check for check in exercise["checks"] if check["outcome"] != "pass"]
        reason = f"{failed[0]['id'].partition('.')[2]}: {' '.join(failed[0]['message'].split())}" if failed else ""
        return Checked(exercise["earned"], exercise["passed"], reason, exercise["remark"])
    last = err.strip().splitlines()[-1:] or ["it said nothing"]
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return Checked(0, False, f"its process ended before the check was done ({how}): {last[0]}")
