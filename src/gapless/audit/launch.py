"""Run a script in a process of its own, and see to it that nothing of it is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..measure.device import VARIABLE
from ..measure.several_gpus import free_port, rank_environment
from .options import FACTS, Options

GRACE_S = 10.0  # for a script to end by itself


class AuditError(RuntimeError):
    """No audit can be made; the message says why and what to do."""


def launch(options: Options, time_limit_s: float | None = None) -> dict:
    """Run the script; the facts that it left. Raises AuditError where it left none; KeyboardInterrupt, and SystemExit at
    SIGTERM, when all processes have ended."""
    command = [sys.executable, "-m", "gapless.audit.child", options.to_json()]
    facts, ends = Path(options.folder) / FACTS, float("inf")
    with _noted_signals() as noted:
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=options.copy, stdin=subprocess.DEVNULL, stdout=sys.stderr,
                                   start_new_session=os.name == "posix",
                                   env=_environment(options.device, options.launched))
        try:
            while process.poll() is None and not noted and time.monotonic() < ends:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
                if facts.exists():  # all is there: it has only to end
                    ends = min(ends, time.monotonic() + GRACE_S)
                elif time_limit_s is not None and time.monotonic() > began + time_limit_s:
                    raise AuditError(f"the script did not come to the end of the steps within {time_limit_s:g} s: smaller "
                                     "models or batches, fewer --steps, or a larger --time-limit")
        finally:
            _end(process)
    if noted:
        raise KeyboardInterrupt if noted[0] == signal.SIGINT else SystemExit(128 + noted[0])
    if not facts.exists():
        raise AuditError(_death(process.returncode))
    return json.loads(facts.read_text(encoding="utf-8"))


@contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """Inside, Ctrl-C and SIGTERM are only noted: as an exception each could come just when a process has been started, or is
    being ended, and leave it behind. Only the main thread can say so."""
    noted: list[int] = []
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    before = {number: signal.signal(number, lambda number, frame: noted.append(number)) for number in numbers}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _environment(device: str | None, launched: bool = False) -> dict[str, str]:
    """The process's: where the virtual GPU is named it sees no real one, as `cuda` cannot mean both. ``launched``: with what
    torchrun gives to its only process."""
    # A core that spins for PyTorch's next operator on the CPU is one less for the program and its workers.
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    if (device or os.environ.get(VARIABLE, "")).strip().lower().startswith("vgpu"):
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if launched:
        environment |= {name: str(value) for name, value in rank_environment(0, 1, 1, free_port()).items()}
    return environment


def _death(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        more = "; the machine's memory may be full: smaller models or batches" if name == "SIGKILL" else ""
        return f"the script's process was ended by {name}{more}"
    return f"the script's process ended with status {code} before it could report: it calls os._exit, or see above"


def _end(process: subprocess.Popen) -> None:
    """End it and what it has started: they are one group."""
    if os.name == "posix":
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            if process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(3)
    elif process.poll() is None:
        process.kill()
    process.wait()
