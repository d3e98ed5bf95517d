"""nbgrader's autograde in processes that are forked and grade by a look at the text: for tests of what becomes of a score.

For programs that :mod:`tests.forked` runs, in a course's folder.
"""

import ctypes
import errno
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nbgrader.apps import NbGraderApp

import gapless.grading.workers.job as job
from gapless.grading.workers.pool import LocalWorkers

LESSON = "77_toy"
during = []  # what else happens while a submission is graded


def quicken(slowly=0.0):
    """From here on a submission's grading takes ``slowly`` seconds and no process."""

    def graded(notebook, submission, device, seed, unconfined=False, here=False):
        time.sleep(slowly)
        for each in during:
            each()
        text = submission.read_text()
        checks = [{"id": f"{name}.text", "exercise": name, "points": 3, "earned": 3 if mark in text else 1, "outcome": "pass",
                   "message": ""} for name, mark in (("double", "2 * x\\n"), ("square", "x * x\\n"))]
        return {"lesson": LESSON, "device": "", "simulated": True, "score": 0, "max_score": 6, "confinement": "", "seed": seed,
                "notes": [], "checks": checks}, {"cells": []}

    job.run_test_notebook = graded
    LocalWorkers.begin = lambda self: ThreadPoolExecutor(self._most)
    LocalWorkers.end = lambda self, at_once=False: self.executor.shutdown(cancel_futures=at_once)


def start(*options, root=None, before=lambda: None, command=("autograde", LESSON), log=os.devnull) -> int:
    """Run nbgrader in a process of its own, in the course's folder ``root``, after it has called ``before``: its pid."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            os.chdir(root or ".")
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            before()
            NbGraderApp.launch_instance([*command, *options])
            status = 0
        except SystemExit as end:
            status = end.code or 0
        finally:
            os._exit(status)
    return child


def finish(child) -> int:
    """Its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def autograde(*options, **more) -> int:
    """Its exit status."""
    return finish(start(*options, **more))


CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "sqlite3.connect", "shutil.rmtree")


class Trap:
    """At the step of that number that changes a file below this folder: die, or have no room left. An audit hook."""

    def __init__(self, step, how):
        self.left, self.how, self.root = step, how, str(Path.cwd())

    def __call__(self, event, arguments):
        if event == "open":
            changes = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        else:
            changes = event in CHANGES
        if changes and str(arguments[0]).startswith(self.root) and "__pycache__" not in str(arguments[0]):
            self.left -= 1
            if self.left == 0:
                if self.how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.ENOSPC, "No space left on device")


def trapped(step, how):
    """For ``before``."""
    return lambda: sys.addaudithook(Trap(step, how))


def at_statement(number, do):
    """For ``before``: ``do()`` ahead of the SQL statement of that number; a commit counts as one."""

    def before():
        from sqlalchemy import event
        from sqlalchemy.engine import Engine

        left = [number]

        def count(*_):
            left[0] -= 1
            if left[0] == 0:
                do()

        event.listen(Engine, "before_cursor_execute", count)
        event.listen(Engine, "commit", count)

    return before


def small(folder, size) -> bool:
    """Give this process and those that it starts a file system of their own at ``folder``, of ``size`` such as "300k"; whether
    the system lets us. With another size later it is that large."""
    if os.geteuid() != 0 or not _unshare(_NEW_MOUNTS):
        identity = os.geteuid(), os.getegid()
        if not _unshare(_NEW_MOUNTS | _NEW_USER):
            return False
        Path("/proc/self/setgroups").write_text("deny")
        for name, each in zip(("uid_map", "gid_map"), identity):
            Path(f"/proc/self/{name}").write_text(f"0 {each} 1")
    Path(folder).mkdir(parents=True, exist_ok=True)
    return not os.system(f"mount --make-rprivate / && mount -t tmpfs -o size={size} none '{folder}'")


_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000


def _unshare(what) -> bool:
    return ctypes.CDLL(None).unshare(what) == 0


def enlarge(folder, size):
    """What :func:`small` has made."""
    assert os.system(f"mount -o remount,size={size} '{folder}'") == 0


def scores(url="sqlite:///gradebook.db") -> dict:
    """Student → grade cell → [auto scores]: more than one were doubled."""
    from sqlalchemy import create_engine, text

    found = {}
    engine = create_engine(url)
    with engine.connect() as connection:
        for student, cell, score in connection.execute(text(
                "select s.student_id, c.name, g.auto_score from submitted_assignment s "
                "left join submitted_notebook n on n.assignment_id = s.id left join grade g on g.notebook_id = n.id "
                "left join base_cell c on c.id = g.cell_id")):
            found.setdefault(student, {}).setdefault(cell, []).append(score)
    engine.dispose()
    return found


FULL = {"check_double": [3.0], "check_square": [3.0]}
LITTLE = {"check_double": [1.0], "check_square": [1.0]}


def graded_alike(root=".") -> bool:
    """Whether each graded notebook and its results are of one grading, and nothing is left beside them."""
    root = Path(root)
    for path in root.glob(f"autograded/*/*/{LESSON}.ipynb"):
        student = path.parts[-3]
        record = json.loads((root / "results" / student / LESSON / f"{LESSON}.json").read_text())
        if json.loads(path.read_text())["metadata"]["gapless"]["grading"] != record["grading"]:
            return False
    return not [*root.glob("*/*/.*.new"), *root.glob("*/*/.*.before")]
