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

from gapless.grading.sandbox.confine import GradingError
from gapless.grading.workers import cluster
from gapless.grading.workers.cluster import DaskWorkers
from gapless.grading.workers.job import Job, Outcome, versions
from gapless.grading.workers.pool import grade_all

from ... import forked
from ..toy import GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE, SLOW_SQUARE, notebook
from ..toycourse import LESSON, Course, quick_test_notebook

GOOD, HALF, SLOW = (notebook(*cells) for cells in ((GOOD_DOUBLE, GOOD_SQUARE), (GOOD_DOUBLE, SLOW_SQUARE), (SLOW_DOUBLE, SLOW_SQUARE)))


class Cluster:
    """Processes of Dask's own commands, in ``folder``."""

    def __init__(self, folder):
        self.folder = folder
        self._file = folder / "scheduler.json"
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self.processes = {}

    def start(self, name, module, *arguments, **variables):
        with open(self.folder / f"{name}.txt", "ab") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", self._file, "--no-dashboard", *arguments],
                cwd=self.folder, stdout=output, stderr=output,
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
        for process in reversed(self.processes.values()):
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


@pytest.mark.slow
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
    done = forked.run("-m", "gapless.commands.cli", "grade-class", str(one_by_one.root), "--workers", "1", imports=forked.NBGRADER, cwd="/",
                      env=one_by_one.command()["env"])
    assert done.returncode == 0, done.stderr
    assert course.scores() == one_by_one.scores()
    graded = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(victim for _, victim in graded) == 2 and len(graded) == len(submissions) + 1
    assert len({pid for pid, _ in graded}) >= 2
    everyone = [each for name in ("one", "two", "three") if dask.processes[name].poll() is None for each in descendants(dask.processes[name]).values()]
    dask.close()
    until(lambda: not alive(everyone), 20)
    assert dask.left() == []



DIES = "import os\nif {where}: os.kill(os.getpid(), 9)\n"


@pytest.mark.slow
def test_what_can_go_wrong_is_said(tmp_path, dask, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 3.0)

    def grade(**jobs):
        def tasks(dask_scheduler):
            return len(dask_scheduler.tasks)

        with DaskWorkers(address) as workers:
            found = dict(grade_all(jobs.items(), workers))
            for outcome in found.values():
                if isinstance(outcome, Exception):
                    outcome.__traceback__ = None  # its frames have futures
            until(lambda: workers._client.run_on_scheduler(tasks) == 0, 10)  # nothing is kept there
        return found

    for address, says in (("nonsense", "missing port"), ("tcp://127.0.0.1:1", "no Dask scheduler at tcp://127.0.0.1:1")):  # noqa: B007  job() reads it
        with pytest.raises(GradingError, match=says):
            grade(ann=job())
    address = dask.scheduler()
    with pytest.raises(GradingError, match="has no workers: start some with dask worker tcp://"):
        grade(ann=job())
    (tmp_path / "bin").mkdir()
    fenceless = dask.worker("without a fence", PATH=str(tmp_path / "bin"), GAPLESS_UNCONFINED="0")
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 30.0)
    until(lambda: "Registered to" in (dask.folder / "without a fence.txt").read_text())
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1.0)
    with pytest.raises(GradingError, match="can grade: the worker .* cannot be used: there is no sandbox .bubblewrap is not installed"):
        grade(ann=job())
    fenceless.kill()
    worker = dask.worker("one")
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 60.0)
    flag = tmp_path / "died"
    found = grade(ann=job(), bob=job(DIES.format(where=f"not os.path.exists({str(flag)!r}) and [open({str(flag)!r}, 'w')]")),
                  cleo=job(DIES.format(where="True")), dora=job("raise ValueError('mine')\n"))
    for key in ("ann", "bob"):
        assert isinstance(found[key], Outcome) and sum(check["earned"] for check in found[key].results["checks"]) == 6
    for key, says in (("cleo", "ended before it was done"), ("dora", "ValueError: mine")):
        assert isinstance(found[key], GradingError) and says in str(found[key])
    assert worker.poll() is None
    with pytest.raises(KeyboardInterrupt), DaskWorkers(address) as workers:
        for _ in grade_all([("ann", job()), ("bob", job("import time; time.sleep(2)\n"))], workers):
            raise KeyboardInterrupt
    found = grade(ann=job())
    assert isinstance(found["ann"], Outcome)
    monkeypatch.setattr(cluster, "_JOB_SECONDS", 2.0)
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1.0)
    with pytest.raises(GradingError, match="not done with a submission after 2 s"):
        grade(ann=job("import time; time.sleep(6)\n"))


def test_another_version_is_no_worker():
    assert "install the same on both" in cluster.why_unfit("gapless 0", True)
    assert cluster.why_unfit(versions(), True) == ""
