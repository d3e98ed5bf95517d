"""Having functions asked: what goes into the processes, how their endings are told, what is left behind."""

import importlib
import re
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

import gapless
from gapless.course.evidence import Evidence
from gapless.course.judge import judge
from gapless.grading.sandbox import ask
from gapless.grading.sandbox.ask import AskAlone, Broken, DeviceBehind, Ended, OwnProcess
from gapless.grading.sandbox.confine import Ending, Limits, find_confinement, require_confinement

from ..toy import GOOD_DOUBLE, PACKAGE, SLOW_DOUBLE

LESSON = importlib.import_module(PACKAGE).LESSON
EXERCISE = LESSON.exercises["double"]
PLAN = EXERCISE.plan(1)


@pytest.fixture
def asker(request):
    def make(kind, **options):
        gapless.device("vgpu:t4")
        made = kind(LESSON, PACKAGE, "vgpu:t4", Limits(**options), require_confinement(True), lambda: False)
        request.addfinalizer(made.close)
        return made

    return make


def told(asking, source):
    """What is said of a cell that comes to no good end."""
    try:
        try:
            return asking.ask(EXERCISE, PLAN, source, 1).error
        except AskAlone:
            return asking.ask(EXERCISE, PLAN, source, 1, alone=True).error
    except Ended as end:
        return str(end)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DeviceBehind, OwnProcess])
def test_both_ways_see_the_same(asker, kind):
    asking = asker(kind)
    for source, outcomes in ((GOOD_DOUBLE, ["pass", "pass"]), (SLOW_DOUBLE, ["fail", "fail"])):
        evidence = asking.ask(EXERCISE, PLAN, source, 1)
        assert (evidence.device, evidence.device_name, evidence.simulated) == ("vgpu:t4", "Tesla T4", True)
        assert [verdict.outcome for verdict in judge(EXERCISE, PLAN, evidence)] == outcomes
    root = asking._root
    asking.close()
    assert not root.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DeviceBehind, OwnProcess])
def test_an_end_of_the_process_is_told(asker, kind):
    asking = asker(kind, seconds=8)
    for source, says in (("import os; os._exit(3)", "ended before the checks were done"), ("import time; time.sleep(1000)", "not done within 8 s")):
        assert says in told(asking, source)


@pytest.mark.slow
@pytest.mark.parametrize("cell, says", [
    pytest.param("import os, signal; os.kill(-1, signal.SIGKILL)", "no function called|ended before the checks were done",
                 marks=pytest.mark.skipif(find_confinement().bubblewrap is None, reason="it would end the tests themselves")),
    ("import os, signal; os.kill(os.getppid(), signal.SIGKILL)", "no function called|ended before the checks were done"),
    ("hold = bytearray(b'x') * (3 * 2**30)", r"took more than 0\.5 GiB|MemoryError"),
    ("import os, time\nfor _ in range(150):\n    if os.fork() == 0: time.sleep(600)\ntime.sleep(600)",
     "it started|it took more than|it was not done within"),
    ("import threading; threading.Thread(target=lambda: None).start(); import os; os.abort()", "signal 6"),
])
def test_a_cell_that_takes_others_along_is_alone_in_the_end(asker, cell, says):
    asking = asker(DeviceBehind, seconds=15, memory_bytes=2**29)
    with ThreadPoolExecutor(3) as pool:
        def good(order):
            try:
                return asking.ask(EXERCISE, PLAN, GOOD_DOUBLE, order)
            except AskAlone:
                return asking.ask(EXERCISE, PLAN, GOOD_DOUBLE, order, alone=True)

        found = pool.map(good, (1, 2))
        bad = pool.submit(told, asking, cell)
        for each in found:
            assert [verdict.outcome for verdict in judge(EXERCISE, PLAN, each)] == ["pass", "pass"]
        assert re.search(says, bad.result())


@pytest.mark.slow
def test_its_time_is_not_given_twice_and_what_it_leaves_running_costs_none(asker):
    """A child with a session of its own holds the socket to the device open."""
    asking = asker(DeviceBehind, seconds=15)
    asking.ask(EXERCISE, PLAN, GOOD_DOUBLE, 1)
    with pytest.raises(Ended, match="not done within 15 s"):  # and not AskAlone, after which it would be asked again
        asking.ask(EXERCISE, PLAN, "import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(1000)", 1)
    with pytest.raises(Ended, match="not done within 2 s"):
        asking.ask(EXERCISE, PLAN, "import time; time.sleep(1000)", 1, alone=True, spent_s=13)


@pytest.mark.slow
def test_what_one_cell_leaves_running_ends_with_it(asker, tmp_path):
    """Else it would be there beside the next."""
    asking = asker(DeviceBehind, seconds=15)
    cell = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)  # left'])\n" + GOOD_DOUBLE
    assert asking.ask(EXERCISE, PLAN, cell, 1).error is None
    deadline = time.monotonic() + 20
    while left := [p for p in psutil.process_iter() if "# left" in " ".join(arguments(p))]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def arguments(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.slow
def test_prints_of_cells_do_not_mix(asker):
    asking = asker(DeviceBehind)
    for word in ("one", "two"):
        asking.ask(EXERCISE, PLAN, f"print({word!r}, flush=True)\n{GOOD_DOUBLE}", 1)
    assert sorted(path.read_text() for path in asking._root.glob("*.output.txt")) == ["one\n", "two\n"]


@pytest.mark.parametrize("kind", ["timeout", "memory", "processes", "files", "ended"])
def test_every_ending_is_in_words(asker, monkeypatch, kind):
    monkeypatch.setattr(ask, "run_confined", lambda *args, **options: Ending(kind, "so much"))
    with pytest.raises(Ended, match="so much"):
        asker(OwnProcess).ask(EXERCISE, PLAN, GOOD_DOUBLE, 1)


def test_a_fault_of_ours_is_none_of_the_learners(asker, monkeypatch):
    monkeypatch.setattr(ask, "run_confined", lambda *args, **options: Ending("broken", "ValueError: ours"))
    with pytest.raises(Broken, match="ValueError: ours"):
        asker(OwnProcess).ask(EXERCISE, PLAN, GOOD_DOUBLE, 1)


@pytest.mark.parametrize("left, says", [({}, "cannot be read"), ({"exercise": "square"}, "it is for another exercise")])
def test_evidence_that_is_none_ends_it(asker, monkeypatch, left, says):
    def leave(module, arguments, writable, **options):
        if left:
            folder = writable[0] / "evidence"
            folder.mkdir()
            Evidence(left["exercise"], "vgpu").save(folder)
        return Ending("finished")

    monkeypatch.setattr(ask, "run_confined", leave)
    with pytest.raises(Ended, match=says):
        asker(OwnProcess).ask(EXERCISE, PLAN, GOOD_DOUBLE, 1)
