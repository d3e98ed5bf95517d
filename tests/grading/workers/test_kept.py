"""The formgrader's button, by nbgrader's own API: its worker is kept, and nothing stays behind."""

import json
import os
import time

import psutil
import pytest

from gapless.files import locked
from gapless.grading.workers import kept
from gapless.grading.workers.kept import KeptWorker

from ... import forked
from ..toy import GOOD_DOUBLE, GOOD_SQUARE, notebook
from ..toycourse import Course

pytest.importorskip("nbgrader")
GOOD = notebook(GOOD_DOUBLE, GOOD_SQUARE)

PRESSED = """
import json, os, sys
from nbgrader.apps.api import NbGraderAPI
from nbgrader.apps.baseapp import NbGrader
import gapless.grading.autograde as ours
import psutil

def main():
    app = NbGrader()
    app.load_cwd_config = True
    app.initialize([])
    api = NbGraderAPI(config=app.config)
    said = []
    for student in sys.argv[1:]:
        if student == "die":
            os.kill(said[-1][-1][0], 9)
            continue
        if student == "break":
            open("autograde/77_toy.ipynb", "w").write("no notebook")
            continue
        told = api.autograde("77_toy", student)
        executor = ours.ButtonAutograde._kept._kept
        said.append([student, told["success"], told.get("log", "") + told.get("error", ""), list(executor._processes) if executor else []])
    print(json.dumps(said), flush=True)

if __name__ == "__main__":
    main()
"""


def press(course, *students, **variables):
    command = course.command()
    script = course.root / "press.py"
    script.write_text(PRESSED)
    done = forked.run(script, *students, imports=forked.NBGRADER, cwd=command["cwd"], env={**command["env"], **variables})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_one_worker_grades_what_is_asked_for_and_ends_with_the_server(tmp_path, released):
    course = Course(tmp_path, quick=True, like=released)
    for student in ("ann", "bob", "cleo"):
        course.submit(student, GOOD)
    course.submit("dan", "no notebook")
    said = press(course, "ann", "dan", "bob", "die", "cleo", "break", "ann", GAPLESS_UNCONFINED="1")
    assert [(student, success) for student, success, *_ in said] == [
        ("ann", True), ("dan", False), ("bob", True), ("cleo", True), ("ann", False)]
    (first,), (second,) = said[0][3], said[3][3]
    assert said[2][3] == [first] != [second]  # the one that was killed is replaced
    assert "is not JSON" in said[1][2] and "test notebook" in said[4][2]
    assert set(course.scores()) == {"ann", "bob", "cleo"}
    assert not psutil.pid_exists(first) and not psutil.pid_exists(second)
    assert not list((tmp_path / "tmp").glob("gapless-*"))


def test_while_a_class_is_graded_the_button_says_so(tmp_path, released):
    course = Course(tmp_path, quick=True, like=released)
    course.submit("ann", GOOD)
    with open(course.root / "nbgrader_config.py", "a") as config:
        config.write("\nc.ButtonAutograde.lock_seconds = 1\n")
    with locked(course.root / ".autograde.lock"):
        started = time.monotonic()
        ((_, success, log, processes),) = press(course, "ann")
    assert not success and f"another autograde runs in this course (process {os.getpid()} on " in log and processes == []
    assert time.monotonic() - started >= 1


def use(worker):
    """The pid of the process that a use finds."""
    with worker:
        return worker.executor.submit(os.getpid).result()


@pytest.mark.slow
def test_it_is_kept_for_its_time_and_not_where_code_has_changed(monkeypatch):
    worker = KeptWorker(idle_seconds=1.0)
    first = use(worker)
    assert use(worker) == first and worker.is_there
    monkeypatch.setattr(kept, "_package_state", lambda: ("changed",))
    second = use(worker)
    assert second != first and not psutil.pid_exists(first)
    with worker:
        time.sleep(1.5)  # in use it does not end, however long
        assert worker.executor.submit(os.getpid).result() == second
    assert worker.is_there
    until = time.monotonic() + 60
    while psutil.pid_exists(second) and time.monotonic() < until:
        time.sleep(0.1)
    assert not worker.is_there and not psutil.pid_exists(second)
    with pytest.raises(KeyError), worker:
        raise KeyError
    assert not worker.is_there
