import argparse
import json
import os
import subprocess
import sys
import time

import pytest

from gapless.commands import grade as command

from .. import ROOT
from ..grading.toy import GOOD_DOUBLE, PACKAGE, SLOW_SQUARE, notebook, write


def run(*arguments, lessons=PACKAGE):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return command.run(parser.parse_args(["grade", *map(str, arguments)]), lessons)


def test_a_graded_notebook_exits_0_whatever_the_score(tmp_path, capsys):
    path = write(notebook(GOOD_DOUBLE, SLOW_SQUARE), tmp_path / "x.ipynb")
    assert run(path, "--device", "vgpu:t4", "--seed", 3, "--json", tmp_path / "out.json") == 0
    out, err = capsys.readouterr()
    assert "3 of 6 points" in out and "square.step_time" in out and "Confinement" in out
    assert "1/2 double: 3 of 3 points" in err
    stored = json.loads((tmp_path / "out.json").read_text())
    assert (stored["score"], stored["device"], stored["simulated"], stored["seed"]) == (3, "vgpu:t4", True, 3)
    assert "Seed of the hidden inputs: 3" in out


@pytest.mark.parametrize("content, arguments, says", [
    ("", (), "is empty"),
    ("hello", (), "not a notebook"),
    (notebook("x = 1"), (), "77_toy"),
    (notebook(GOOD_DOUBLE), ("--device", "gpu9000"), "gpu9000"),
    (notebook(GOOD_DOUBLE), ("--json", "/no/such/folder/out.json"), "does not exist"),
    (notebook(GOOD_DOUBLE), ("--json", "/"), "is a folder"),
    (notebook(GOOD_DOUBLE), ("--json", "/proc/out.json"), "cannot be written"),
])
def test_what_cannot_be_graded_exits_2_and_says_why(tmp_path, capsys, content, arguments, says):
    assert run(write(content, tmp_path / "x.ipynb"), *arguments) == 2
    out, err = capsys.readouterr()
    assert says in err and out == ""


def test_a_worker_that_cannot_start_is_no_zero(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gapless.grading.sandbox.confine._BOOT", "raise SystemExit('no luck')")
    assert run(write(notebook(GOOD_DOUBLE), tmp_path / "x.ipynb"), "--json", tmp_path / "out.json") == 2
    assert "did not start" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_without_the_extra_it_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    assert run(write(notebook(GOOD_DOUBLE), tmp_path / "x.ipynb")) == 2
    out, err = capsys.readouterr()
    assert "pip install 'gapless[grading]'" in err and "gapless check" in err and out == ""


@pytest.mark.slow
def test_without_a_sandbox_it_refuses_unless_told(tmp_path, capsys, no_bubblewrap):
    path = write(notebook(GOOD_DOUBLE, SLOW_SQUARE), tmp_path / "x.ipynb")
    assert run(path, "--device", "vgpu") == 2
    out, err = capsys.readouterr()
    assert "bubblewrap" in err and "--unconfined" in err and out == ""
    assert run(path, "--device", "vgpu", "--unconfined") == 0
    assert "Confinement: no sandbox" in capsys.readouterr().out


@pytest.mark.slow
def test_what_a_killed_run_left_is_cleared_by_the_next(tmp_path):
    """Killed while the cell runs: its files lie in one folder, which has an owner no more."""
    slow = write(notebook("# exercise: double\nwhile True:\n    pass\n"), tmp_path / "slow.ipynb")
    places = tmp_path / "places"
    places.mkdir()
    script = ("import sys, tempfile\n"
              f"sys.path.insert(0, {str(ROOT)!r})\n"
              f"from tests.commands.test_grade import run\nsys.exit(run({str(slow)!r}, '--device', 'vgpu'))")
    process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(places)}, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(places.rglob("job.json")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    left = list(places.iterdir())
    assert left
    again = write("no notebook", tmp_path / "again.ipynb")
    subprocess.run([sys.executable, "-c", script.replace("slow.ipynb", again.name)], env={**os.environ, "TMPDIR": str(places)},
                   stderr=subprocess.DEVNULL)
    assert not any(path.exists() for path in left)
