"""``gapless check``: the notebook's own checks in a terminal, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from gapless.learner.progress_file import read_progress

from .learner import LESSON, SOLVED


def test_passing_exercise_is_exit_0_and_is_recorded(notebook, put, gapless):
    put(notebook, "ignore_background", SOLVED)
    status, out, _ = gapless("check", notebook, "ignore_background", "--device", "vgpu:t4")
    assert status == 0 and "ignore_background: 5 of 5 points" in out and "simulated Tesla T4" in out
    assert "zero_if_uniform" not in out and "In all 5 of 5 points." in out
    record = read_progress()[0][LESSON]["ignore_background"]
    assert (record.best, record.attempts, record.device) == (5, 1, "Tesla T4 (simulated)")


def test_failing_exercises_are_exit_1_with_their_reasons(notebook, gapless):
    status, out, _ = gapless("check", notebook.parent, "--device", "vgpu:a10g")
    assert status == 1 and "In all 0 of 21 points." in out
    assert '`nonzero` at cell "ignore_background", line 3' in out


@pytest.mark.parametrize("source, says", [
    ("def ignore_background(target:\n", "does not compile"),
    ("import sys\nsys.exit(0)\n", "the cell ends Python"),
    ("import sys\ndef ignore_background(target):\n    sys.exit(0)\n", "the cell ends Python"),
    ("1 / 0\n", "ZeroDivisionError"),
])
def test_a_cell_that_cannot_run_is_exit_1_and_costs_nobody_else(notebook, put, gapless, source, says):
    put(notebook, "ignore_background", "# exercise: ignore_background\n" + source)
    status, out, _ = gapless("check", notebook, "ignore_background", "zero_if_uniform")
    assert status == 1 and says.lower() in out.lower() and "zero_if_uniform: 0 of 5 points" in out


def test_a_missing_cell_says_how_to_get_it_back_and_is_no_attempt(notebook, put, gapless):
    put(notebook, "ignore_background", None)
    status, out, _ = gapless("check", notebook, "ignore_background")
    assert status == 1 and f"gapless reset {notebook} ignore_background" in out and "In all 0 of 5 points." in out
    assert read_progress()[0] == {}


def test_json_has_each_check(notebook, put, gapless):
    put(notebook, "ignore_background", SOLVED)
    put(notebook, "sparse_head_loss", None)
    status, out, _ = gapless("check", notebook, "ignore_background", "sparse_head_loss", "--json")
    found = json.loads(out)
    assert status == 1 and (found["lesson"], found["missing"], found["passed"]) == (LESSON, ["sparse_head_loss"], False)
    exercise, = found["exercises"]
    assert (exercise["earned"], exercise["passed"], len(exercise["checks"])) == (5, True, 3)


@pytest.mark.parametrize("arguments, says", [
    (("nothing.ipynb",), "there is no nothing.ipynb"),
    (("NOTEBOOK", "nothing"), "no exercise 'nothing'"),
    (("NOTEBOOK", "--device", "gpu9000"), "no device is called 'gpu9000'"),
    (("TEXT",), "not a notebook"),
    (("FOLDER",), "is a folder"),
])
def test_what_cannot_be_checked_is_exit_2_with_a_reason(notebook, tmp_path, gapless, arguments, says):
    (tmp_path / "text.ipynb").write_text("hello")
    (tmp_path / "empty").mkdir()
    places = {"NOTEBOOK": notebook, "TEXT": tmp_path / "text.ipynb", "FOLDER": tmp_path / "empty"}
    status, out, err = gapless("check", *(places.get(each, each) for each in arguments))
    assert status == 2 and says in err and out == ""


def test_a_home_that_cannot_be_written_fails_no_check(notebook, put, gapless, monkeypatch):
    put(notebook, "ignore_background", SOLVED)
    monkeypatch.setenv("GAPLESS_HOME", str(notebook / "no folder"))
    status, out, _ = gapless("check", notebook, "ignore_background", "zero_if_uniform")
    assert status == 1 and "ignore_background: 5 of 5 points" in out
    assert out.count("Your progress was not saved") == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_says_what_was_checked(notebook, put, tmp_path):
    mark = tmp_path / "begun"
    put(notebook, "zero_if_uniform", f"# exercise: zero_if_uniform\nopen({str(mark)!r}, 'w')\nwhile True: pass\n")
    process = subprocess.Popen([sys.executable, "-m", "gapless.commands.cli", "check", str(notebook), "zero_if_uniform"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 120
        while not mark.exists():
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and err == "stopped while it checked zero_if_uniform: does every loop in its cell end?\n"
