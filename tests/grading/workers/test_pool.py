"""Workers that grade side by side, and die."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor

import psutil
import pytest

from gapless.files import temporary_folder
from gapless.grading.sandbox.confine import GradingError
from gapless.grading.workers import pool
from gapless.grading.workers.job import Job
from gapless.grading.workers.pool import LocalWorkers, grade_all

from ... import ROOT
from ..toy import GOOD_DOUBLE, GOOD_SQUARE, notebook
from ..toycourse import LESSON, quick_test_notebook


def job(before="", **options):
    return Job(LESSON, json.dumps(notebook(GOOD_DOUBLE, GOOD_SQUARE)).encode(), json.dumps(quick_test_notebook(before)).encode(), **options)


@pytest.fixture(scope="module", autouse=True)
def unconfined():
    """These test notebooks run nothing of a learner's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAPLESS_UNCONFINED", "1")
        yield


DIES = "import os\nif {where}: os.kill(os.getpid(), 9)\n"


@pytest.mark.slow
def test_what_dies_is_graded_again_and_its_neighbours_too(tmp_path):
    flag = tmp_path / "died"
    once = DIES.format(where=f"not os.path.exists({str(flag)!r}) and [open({str(flag)!r}, 'w')]")
    jobs = {"ann": job(), "bob": job(once), "cleo": job(DIES.format(where="True")), "dora": job("raise ValueError('mine')\n"),
            "ed": job(versions="gapless 0"), **{f"more {i}": job() for i in range(3)}}
    with LocalWorkers(2) as workers:
        found = dict(grade_all(jobs.items(), workers))
        executor = workers.executor
        pids = list(executor._processes)
    assert set(found) == set(jobs)
    for key in ("ann", "bob", "more 0", "more 1", "more 2"):
        assert not isinstance(found[key], Exception), (key, found[key])
        assert sum(check["earned"] for check in found[key].results["checks"]) == 6
        assert found[key].executed["cells"][-1]["outputs"] == []
    for key, says in (("cleo", "ended before it was done"), ("dora", "ValueError: mine"), ("ed", "install the same on both")):
        assert isinstance(found[key], GradingError) and says in str(found[key])
    assert pids and not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)


class Breaking(ThreadPoolExecutor):
    """Breaks in the ``breaks``-th submission of all."""

    submitted, breaks = 0, ()

    def submit(self, *args):
        Breaking.submitted += 1
        if Breaking.submitted in self.breaks:
            raise BrokenExecutor("a worker has died meanwhile")
        return super().submit(*args)


@pytest.mark.parametrize("breaks", [(1,), (2,), (2, 3), (3, 4, 5)])
def test_workers_that_are_found_broken_when_more_is_given_to_them(monkeypatch, breaks):
    monkeypatch.setattr(pool, "_keep_servers", lambda: None)
    monkeypatch.setattr(Breaking, "breaks", breaks)
    monkeypatch.setattr(Breaking, "submitted", 0)
    with Threads(2, Breaking) as workers:
        found = list(grade_all(((number, job()) for number in range(3)), workers))
    assert sorted(key for key, _ in found) == [0, 1, 2]
    assert not [outcome for _, outcome in found if isinstance(outcome, Exception)]


class Threads(LocalWorkers):
    """Workers that cannot die."""

    def __init__(self, most, executor=ThreadPoolExecutor):
        super().__init__(most)
        self._executor = executor

    def begin(self):
        return self._executor(self._most)

    def end(self, at_once=False):
        self.executor.shutdown(cancel_futures=at_once)


def test_jobs_are_read_as_workers_become_free(monkeypatch):
    monkeypatch.setattr(pool, "_keep_servers", lambda: None)  # this process is none that ends with the class
    read = []

    def jobs():
        for number in range(6):
            read.append(number)
            yield number, job()

    with Threads(2) as workers:
        grading = grade_all(jobs(), workers)
        for done in range(1, 7):
            next(grading)
            assert len(read) <= done + 2
        assert next(grading, None) is None


@pytest.mark.slow
@pytest.mark.parametrize("length", [70, 100])
def test_a_temporary_folder_with_a_long_path(length):
    """The fork server's socket lies in it."""
    with temporary_folder() as folder:
        place = folder / ("x" * (length - len(str(folder)) - 1))
        place.mkdir()
        program = ("import tempfile\nfrom gapless.grading.workers.pool import LocalWorkers\nif __name__ == '__main__':\n"
                   f"    assert len(tempfile.gettempdir()) == {length}\n"
                   "    with LocalWorkers(2) as workers: print(workers.executor.submit(int, '7').result())\n")
        script = folder / "script.py"
        script.write_text(program)
        done = subprocess.run([sys.executable, script], env={**os.environ, "TMPDIR": str(place)}, capture_output=True, text=True)
    assert done.stdout == "7\n", done.stderr


def test_none_to_grade_starts_no_process():
    with LocalWorkers(2) as workers:
        assert list(grade_all([], workers)) == []
        assert not workers.executor._processes


@pytest.mark.slow
def test_stopped_in_between_it_leaves_no_process(tmp_path):
    before = {each.pid for each in psutil.Process(os.getpid()).children(recursive=True)}
    with pytest.raises(KeyboardInterrupt), LocalWorkers(1) as workers:
        for _ in grade_all([("ann", job()), ("bob", job("import time; time.sleep(600)\n"))], workers):
            raise KeyboardInterrupt
    # The fork server is kept for the next workers; what it forks has its command line, and another parent.
    kept = ("resource_tracker", "forkserver")
    left = [each for each in psutil.Process(os.getpid()).children(recursive=True) if each.pid not in before
            and (each.ppid() != os.getpid() or not any(name in " ".join(each.cmdline()) for name in kept))]
    assert not left, left


ENDS = """
import os, sys
from gapless.grading.workers.pool import LocalWorkers, grade_all
from tests.grading.workers.test_pool import job
if __name__ == "__main__":
    with LocalWorkers(1) as workers:
        mark = f"import gapless.grading.sandbox.servers as s; s._keeper.close = lambda: open({sys.argv[1]!r}, 'w').close()\\n"
        (_, outcome), = grade_all([(0, job(mark))], workers)
        print(type(outcome).__name__, flush=True)
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how, status", [("ended", 0), ("killed", -9)])
def test_its_servers_are_closed_when_a_worker_ends_and_when_who_started_it_is_killed(tmp_path, how, status):
    script, flag = tmp_path / "script.py", tmp_path / "closed"
    script.write_text(ENDS)
    done = subprocess.run([sys.executable, script, flag, how], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == status and done.stdout == "Outcome\n", done.stderr
    deadline = time.monotonic() + 30
    while not flag.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert flag.exists()
