"""A real Dask cluster on this machine: its scheduler, and workers that die, come, and cannot grade."""

import contextlib
import json
import os
import subprocess
import sys
import time

import psutil
import pytest

pytest.importorskip("distributed")

from gapless.grading.job import Job

from .. import forked
from .toy import GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE, SLOW_SQUARE, notebook
from .toycourse import LESSON, Course, quick_test_notebook

GOOD, HALF, SLOW = (notebook(*cells) for cells in ((GOOD_DOUBLE, GOOD_SQUARE), (GOOD_DOUBLE, SLOW_SQUARE), (SLOW_DOUBLE, SLOW_SQUARE)))


class Cluster:
    """Processes of Dask's own commands, in ``folder``."""

    def __init__(self, folder):
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self.processes = {}

    def start(self, name, module, *arguments, **variables):
        with open(self._folder / f"{name}.txt", "ab") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", self._file, "--no-dashboard", *arguments],
                cwd=self._folder, stdout=output, stderr=output,
                env={**os.environ, "GAPLESS_UNCONFINED": "1", "TMPDIR": str(self._temporary), **variables})
        return self.processes[name]

    def scheduler(self):
        self.start("scheduler", "dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        until(self._file.exists)
        return json.loads(self._file.read_text())["address"]

    def worker(self, name, *arguments, **variables):
        return self.start(name, "dask_worker", "--name", name, "--local-directory", self._temporary, *(arguments or ["--no-nanny", "--nthreads", "1"]),
                          **variables)

    def left(self):
        """Temporary folders of gapless's."""
        return sorted(path.name for path in self._temporary.glob("gapless-*"))

    def close(self):
        for name, process in reversed(self.processes.items()):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


@pytest.fixture
def dask(tmp_path):
    folder = tmp_path / "dask"
    folder.mkdir()
    running = Cluster(folder)
    try:
        yield running
    finally:
        running.close()


def until(holds, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
    return found


def descendants(process):
    return {each.pid: each for each in psutil.Process(process.pid).children(recursive=True)}


def alive(processes):
    with contextlib.suppress(psutil.Error):
        return [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    return []


def job(before=""):
    return Job(LESSON, json.dumps(GOOD).encode(), json.dumps(quick_test_notebook(before)).encode())


# The first that comes here stays, until its worker is killed; and who is graded when is written down.
HOLDS = """
import json, os, time
log = {log!r}
text = open(submission).read()
with open(log, "a") as file:
    file.write(json.dumps([os.getpid(), "victim" in text]) + chr(10))
if "victim" in text and not os.path.exists(log + ".held"):
    open(log + ".held", "w").write(str(os.getpid()))
    time.sleep(600)
print("a picture" * 200000)
"""


def test_a_class_whose_workers_die_and_come(tmp_path, dask):
    log = tmp_path / "log"
    submissions = {f"student {number}": (GOOD, HALF, SLOW)[number % 3] for number in range(7)}
    submissions["victim"] = notebook(GOOD_DOUBLE, SLOW_SQUARE, "# victim")
    (tmp_path / "one").mkdir()
    one_by_one = Course(tmp_path / "one", quick=True)
    one_by_one.nbgrader("generate_assignment", LESSON)
    course = Course(tmp_path / "all", quick=True, like=one_by_one.root)
    course.grade_by(quick_test_notebook(HOLDS.format(log=str(log))))
    for student, content in submissions.items():
        for each in (one_by_one, course):
            each.submit(student, content)
    address = dask.scheduler()
    hollow = tmp_path / "hollow" / "gapless"
    hollow.mkdir(parents=True)
    (hollow / "__init__.py").touch()
    dask.worker("without gapless", PYTHONPATH=str(hollow.parent))
    dask.worker("one", "--nanny", "--nthreads", "1")
    dask.worker("two", "--no-nanny", "--nthreads", "4")
    environment = {**course.command()["env"], "PATH": "/usr/bin:/bin"}
    with open(tmp_path / "output.txt", "w") as output:
        grading = subprocess.Popen([sys.executable, "-m", "gapless.commands.cli", "grade-class", course.root, "--scheduler", address],
                                   env=environment, stdout=output, stderr=output)
    try:
        held = int(until(lambda: (tmp_path / "log.held").exists() and (tmp_path / "log.held").read_text()))
        # With a nanny the worker is a child of the process that was started, else it is that process.
        where = next(name for name in ("one", "two") if held in descendants(dask.processes[name]))
        ours = list(descendants(dask.processes[where]).values())
        worker = next((each for each in ours if "multiprocessing.spawn" in " ".join(each.cmdline())), None) if where == "one" else None
        below = worker.children(recursive=True) if worker else ours
        (worker or dask.processes[where]).kill()
        dask.worker("three", "--no-nanny", "--nthreads", "1")
        assert grading.wait(180) == 0, (tmp_path / "output.txt").read_text()
    finally:
        grading.kill()
    said = (tmp_path / "output.txt").read_text()
    assert "8/8" in said and "lacks this version of gapless" in said
    until(lambda: not alive(below), 20)
    with forked_scores(one_by_one) as expected:
        assert course.scores() == expected
    graded = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(victim for _, victim in graded) == 2 and len(graded) == len(submissions) + 1
    assert len({pid for pid, _ in graded}) >= 2
    everyone = [each for name in ("one", "two", "three") if dask.processes[name].poll() is None for each in descendants(dask.processes[name]).values()]
    dask.close()
    until(lambda: not alive(everyone), 20)
    assert dask.left() == []


@contextlib.contextmanager
def forked_scores(course):
    done = forked.run("-m", "gapless.commands.cli", "grade-class", str(course.root), "--workers", "1", imports=forked.NBGRADER, cwd="/",
                      env=course.command()["env"])
    assert done.returncode == 0, done.stderr
    yield course.scores()
