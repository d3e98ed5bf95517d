"""A test that hangs is a failure that says where: the stacks of all processes that the tests have started are printed, then
pytest ends the worker (``faulthandler_timeout`` in pyproject.toml) and goes on with another.

Hooks of pytest's, for the process that starts the workers.
"""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from sysconfig import get_path

import psutil

_SHARE = 0.5  # of a test's time, after which its stacks are printed

_since: dict[str, float] = {}


def pytest_runtest_logstart(nodeid):
    _since[nodeid] = time.monotonic()


def pytest_runtest_logfinish(nodeid):
    _since.pop(nodeid, None)


def pytest_sessionstart(session):
    limit_s = float(session.config.getini("faulthandler_timeout"))
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not hasattr(session.config, "workerinput") and limit_s and reporter:
        threading.Thread(target=_watch, args=(_SHARE * limit_s, reporter), daemon=True).start()


def _watch(seconds: float, reporter) -> None:
    while True:
        time.sleep(min(0.1 * seconds, 5.0))
        late = [name for name, since in list(_since.items()) if time.monotonic() - since > seconds]
        for name in late:
            _since.pop(name, None)  # it is told once
        if late:
            reporter.write_line(f"\n{', '.join(late)}: not done within {seconds:g} s")
            for process in psutil.Process().children(recursive=True):
                reporter.write_line(_stacks(process.pid))


def _stacks(pid: int) -> str:
    """Of one process, by py-spy; why there are none where it cannot look into it."""
    command = [Path(get_path("scripts"), "py-spy"), "dump", "--pid", str(pid)]
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
