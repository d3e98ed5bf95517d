"""Python programs, each in a process of its own that has PyTorch and the course imported already.

One process imports them, which takes seconds, and forks another for each program. That has its own ``__main__``, arguments,
folder, environment and streams, and ends as an interpreter does. For tests of what a program does; those of what it imports, or
of how it finds it, start Python.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from pathlib import Path

from . import ROOT

# PyTorch imports the second at the first operator on a tensor subclass.
COURSE = ("gapless", "torch.distributed.tensor", "gapless.commands.cli")
PYTORCH = ("torch",)
NBGRADER = ("gapless.grading.autograde", "gapless.grading.preprocessors", "nbgrader.apps", "papermill", "psutil",
            "sqlalchemy.dialects.sqlite.pysqlite", "IPython.display")


def run(*arguments, imports=COURSE, cwd=None, env=None, input="", timeout=300, dies=False) -> subprocess.CompletedProcess:
    """What ``subprocess.run([sys.executable, *arguments], capture_output=True, text=True, …)`` gives, where the arguments are
    ``-c`` and a program, ``-m`` and a module, or a file; then those of the program. ``imports``: what is imported already. ``dies``: its interpreter is taken down whole, which
    takes a third of a second with PyTorch."""
    arguments = [str(each) for each in arguments]
    if not hasattr(os, "fork"):
        return subprocess.run([sys.executable, *arguments], input=input, capture_output=True, text=True, cwd=cwd, env=env,
                              timeout=timeout)
    with tempfile.TemporaryDirectory() as folder:
        given, out, err = (Path(folder) / name for name in ("in", "out", "err"))
        given.write_text(input)
        order = {"arguments": arguments, "cwd": str(cwd or os.getcwd()), "env": dict(os.environ if env is None else env),
                 "streams": [str(given), str(out), str(err)], "timeout": timeout, "dies": dies}
        server = _server(imports)
        print(json.dumps(order), file=server.stdin, flush=True)
        status = json.loads(server.stdout.readline())
        if status is None:
            raise subprocess.TimeoutExpired(arguments, timeout, out.read_text(), err.read_text())
        return subprocess.CompletedProcess(arguments, status, out.read_text(), err.read_text())


@functools.cache
def _server(imports) -> subprocess.Popen:
    server = subprocess.Popen([sys.executable, "-m", __name__, *imports], cwd=ROOT, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)  # it ends, and is waited for
    return server


def _serve(imports) -> None:
    """Until its input ends; and in each process that it forks, which runs its program and returns."""
    for name in imports:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else each process's collector would make copies of all that they share
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            return _become(order) if order["dies"] else _end(functools.partial(_become, order))
        print(json.dumps(_ending(child, order["timeout"])), flush=True)


def _ending(child: int, seconds: float) -> int | None:
    """As subprocess tells it; None where it was ended after ``seconds``."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _, status = os.waitpid(child, 0)
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    return os.waitstatus_to_exitcode(status) if left else None


def _end(program) -> None:
    """Run it, and do what an interpreter does at its end for others; does not return."""
    status = 1
    try:
        program()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _become(order: dict) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path in enumerate(order["streams"]):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  stays; the old one has read ahead
    os.environ.clear()
    os.environ.update(order["env"])
    tempfile.tempdir = None
    os.chdir(order["cwd"])
    kind, *rest = order["arguments"]
    if kind == "-m":
        name, *sys.argv[1:] = rest
        sys.path[0] = os.getcwd()
        sys.modules.pop(name, None)
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if kind == "-c":
        source, *rest = rest
        sys.argv, sys.path[0] = ["-c", *rest], ""
    else:
        source, main.__file__ = Path(kind).read_text(encoding="utf-8"), kind
        sys.argv, sys.path[0] = order["arguments"], str(Path(kind).parent)
    exec(compile(source, getattr(main, "__file__", "<string>"), "exec"), main.__dict__)


if __name__ == "__main__":
    _serve(sys.argv[1:])
