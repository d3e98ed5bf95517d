"""From a notebook to a result: real processes on the toy lessons. What cells may try is in ``attempts/``."""

import json
import time

import psutil
import pytest

from gapless.course.evidence import save_plan
from gapless.course.notebooks.submission import Submission
from gapless.grading.grade import Grader, seed_for
from gapless.grading.sandbox.confine import Confinement, GradingError, find_confinement

from .attempts import grade_attempts
from .toy import GOOD_DOUBLE, GOOD_SQUARE, PACKAGE, SLOW_DOUBLE, SLOW_SQUARE, notebook, write

LIMITS_ONLY = Confinement(None, "limits only, for this test")


def double(body, before=""):
    return f"# exercise: double\n{before}\ndef double(x):\n    {body}\n"


@pytest.mark.slow
def test_a_good_answer_scores_everything_and_the_result_has_the_agreed_form(grade_cells, tmp_path):
    result = grade_cells(GOOD_DOUBLE, SLOW_SQUARE)
    result.write(tmp_path / "out.json")
    stored = json.loads((tmp_path / "out.json").read_text())
    assert set(stored) == {"lesson", "device", "simulated", "score", "max_score", "checks", "confinement", "seed", "notes",
                           "versions"}
    assert (stored["lesson"], stored["device"], stored["simulated"], stored["seed"]) == ("77_toy", "vgpu", True, 1)
    assert (stored["score"], stored["max_score"], stored["notes"]) == (3, 6, [])
    assert [set(check) for check in stored["checks"]] == [{"id", "exercise", "points", "earned", "outcome", "message"}] * 4
    assert [(check["id"], check["earned"]) for check in stored["checks"]] == [
        ("double.values", 2), ("double.step_time", 1), ("square.values", 0), ("square.step_time", 0)]
    assert list(tmp_path.glob("*.tmp")) == []


@pytest.mark.slow
def test_one_exercise_does_not_spoil_another_and_a_missing_cell_says_so(grade_cells):
    assert grade_cells(double("__import__('os')._exit(0)"), GOOD_SQUARE).score == 3
    result = grade_cells(GOOD_SQUARE)
    assert (result.score, result.max_score) == (3, 6)
    assert "# exercise: double" in result.verdicts[0].message
    assert any("double" in note for note in result.notes)


FAILS = {
    "def f(target):\n    raise KeyError('mine')\n": "it raised KeyError: 'mine' (line 3: raise KeyError('mine'))",
    "raise KeyError('mine')\n": "The cell raised KeyError: 'mine' (line 2",
    "def f(target:\n": "does not compile",
    "f = 3\n": "is a int, not a function",
    "import os; os._exit(0)\n": "ended before the checks were done",
    "def f(target):\n    import os; os._exit(0)\n": "ended before the checks were done",
    "import os; os.abort()\n": "ended before the checks were done",
    "raise SystemExit\n": "raised SystemExit",
    "def f(target):\n    raise KeyboardInterrupt\n": "raised KeyboardInterrupt",
    "def f(target):\n    return target.int()\n": "dtype torch.int64 is wanted",
    "def f(target):\n    return torch.zeros(1)\n": "must stay on the device",
    "def f(target):\n    return None\n": "it returned nothing: is there a `return`?",
    "def f(target):\n    return torch.empty(2**40, device=target.device)\n": "OutOfMemoryError",
    "import gapless.evidence.traces.trace\nf = 1": "takes from gapless.evidence.traces.trace",
    "exec('import gapless.evidence.views')\nf = 1": "ModuleNotFoundError",
    "def f(target):\n    return helper(target)\n": "put the imports and helpers it needs inside the cell",
}


@pytest.mark.slow
def test_what_fails_says_why(tmp_path):
    found = grade_attempts({source: source for source in FAILS}, tmp_path)
    assert {source: message for source, (earned, message) in found.items() if earned or FAILS[source] not in message} == {}


@pytest.mark.slow
def test_a_loop_without_end_is_stopped(grade_double):
    started = time.monotonic()
    checks, _ = grade_double(double("while True:\n        pass"), seconds=4)
    assert "within 4 s" in checks["values"].message and checks["step_time"].earned == 0
    assert time.monotonic() - started < 60


@pytest.mark.slow
def test_allocating_without_end_is_stopped(tmp_path):
    found = grade_attempts({
        "in a call": "def f(target):\n    kept = []\n    while True:\n        kept.append(torch.ones(2**22))\n",
        "in the cell": "kept = []\nwhile True:\n    kept.append(bytearray(2**22))\nf = None\n",
        # A limit of the system's own would come first: lifted by the cell, as the cell can.
        "past the system's limit": "import resource as r\nr.setrlimit(r.RLIMIT_DATA, (r.getrlimit(r.RLIMIT_DATA)[1],) * 2)\n"
                                   "def f(target):\n    kept = []\n    while True:\n        kept.append(torch.ones(2**22))\n",
    }, tmp_path, memory_bytes=300 * 2**20)
    assert {name for name, (earned, message) in found.items() if earned or "memory" not in message.lower()} == set()
    assert "more than 0.293 GiB of memory" in found["past the system's limit"][1]


@pytest.mark.slow
def test_what_the_devices_processes_share_is_not_counted_for_each(tmp_path, monkeypatch):
    """What each seems to hold of PyTorch is more than this limit: the one that all work beside must not end over it."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    greedy = "def f(target):\n    kept = []\n    while True:\n        kept.append(torch.ones(2**22))\n"
    found = grade_attempts({"one": greedy, "another": greedy}, tmp_path, memory_bytes=200 * 2**20)
    assert all("more than 0.195 GiB of memory" in message for _, message in found.values())


def test_of_duplicates_the_last_counts(grade_cells):
    result = grade_cells(GOOD_DOUBLE, SLOW_DOUBLE, GOOD_SQUARE)
    assert result.score == 3 and "more than once" in result.notes[0]


@pytest.mark.slow
@pytest.mark.skipif(find_confinement().bubblewrap is None, reason="bubblewrap does not work here")
def test_the_sandbox_hides_files(grade_double, tmp_path):
    secret = tmp_path / "gradebook.db"
    secret.write_text("scores")
    look = "import os\n" + "\n".join(f"if os.access({path!r}, os.F_OK): raise ValueError('sees ' + {path!r})"
                                      for path in (str(secret), __file__, "/etc/passwd", "/root/.bashrc"))
    checks, _ = grade_double(double("return 2 * x", look))
    assert checks["values"].earned == 2
    checks, _ = grade_double(double("return 2 * x", look), confinement=LIMITS_ONLY)
    assert "sees" in checks["values"].message, "this test could not have failed"


@pytest.mark.slow
def test_limits_alone_confine_too_and_nothing_is_left_running(grade_cells, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # a process's command names its folder: these are ours
    result = grade_cells(GOOD_DOUBLE, "# exercise: square\nimport time\ndef square(x):\n    time.sleep(10**6)\n",
                         confinement=LIMITS_ONLY, seconds=25)
    assert result.score == 3 and result.confinement == LIMITS_ONLY.description
    left = [p.info for p in psutil.process_iter(["status", "cmdline"])  # one that ends meanwhile is left out
            if p.info["status"] != psutil.STATUS_ZOMBIE and str(tmp_path) in " ".join(p.info["cmdline"] or ())]
    assert left == []


@pytest.mark.slow
def test_what_breaks_the_measuring_is_told_from_what_is_broken(grade_double, monkeypatch):
    """Here the inputs that are handed over are spoilt: for the cell (which is asked twice, among others and alone), then
    whatever the cell does."""
    spoilt = []

    def spoils(times):
        def save(plan, path):
            spoilt.append(path)
            path.write_bytes(b"no plan") if len(spoilt) <= times else save_plan(plan, path)

        spoilt.clear()
        monkeypatch.setattr("gapless.grading.sandbox.ask.save_plan", save)

    spoils(2)
    checks, result = grade_double(GOOD_DOUBLE)
    assert "with this cell nothing could be measured" in checks["values"].message.lower() and result.score == 0
    spoils(4)
    with pytest.raises(GradingError, match="(?s)measuring double fails whatever the cell does.*pickle"):
        grade_double(GOOD_DOUBLE)


@pytest.mark.slow
def test_a_device_that_is_gone_is_no_zero(tmp_path):
    path = write(notebook(GOOD_DOUBLE, SLOW_SQUARE), tmp_path / "77_toy.ipynb")
    with Grader(path, "vgpu", 1, lessons=PACKAGE) as grader:
        assert sum(v.earned for v in grader.grade_exercise("double").verdicts) == 3
        grader.grade_exercise("square")
        grader._asker._servers.device.close()
        with pytest.raises(GradingError, match="the device's process is gone"):
            grader._grade(grader.lesson.exercises["double"])


def test_an_exercise_that_is_none():
    with pytest.raises(ValueError, match="77_toy has no exercise 'cube'; it has double, square"):
        Grader(Submission("77_toy", {}), "vgpu", 1, lessons=PACKAGE).grade_exercise("cube")


def test_each_exercise_has_its_own_inputs():
    assert seed_for(1, "double") != seed_for(1, "square") != seed_for(2, "square")
    assert seed_for(1, "double") == seed_for(1, "double")


@pytest.mark.slow
def test_asked_again_it_is_for_other_inputs(tmp_path):
    """What the first try has seen the second must not be able to use."""
    path = write(notebook("# exercise: double\nimport os; os._exit(1)", SLOW_SQUARE), tmp_path / "77_toy.ipynb")
    with Grader(path, "vgpu", 1, lessons=PACKAGE) as grader:
        asked = []
        grader.grade_exercise("square")
        ask = grader._asker.ask
        grader._asker.ask = lambda exercise, plan, source, order, **how: asked.append((plan, order, how)) or ask(
            exercise, plan, source, order, **how)
        assert "ended before the checks" in grader._grade(grader.lesson.exercises["double"]).evidence.error
    (first, order, how), (second, other, again) = asked
    assert how == {} and again["alone"] and order != other
    assert not any((one.inputs["x"] == two.inputs["x"]).all() for one, two in zip(first.cases, second.cases) if one.inputs["x"].size > 1)
