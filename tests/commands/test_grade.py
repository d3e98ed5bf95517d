import argparse
import json

import pytest

from gapless.commands import grade as command

from ..grading.toy import GOOD_DOUBLE, PACKAGE, SLOW_SQUARE, notebook, write


def run(*arguments, lessons=PACKAGE):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return command.run(parser.parse_args(["grade", *map(str, arguments)]), lessons)


def test_a_graded_notebook_exits_0_whatever_the_score(tmp_path, capsys):
    path = write(notebook(GOOD_DOUBLE, SLOW_SQUARE), tmp_path / "x.ipynb")
    assert run(path, "--device", "vgpu:t4", "--seed", 3, "--json", tmp_path / "out.json") == 0
    out, err = capsys.readouterr()
    assert "5 of 6 points" in out and "square.step_time" in out and "Confinement" in out
    assert "1/2 double: 3 of 3 points" in err
    stored = json.loads((tmp_path / "out.json").read_text())
    assert (stored["score"], stored["device"], stored["simulated"]) == (5, "vgpu:t4", True)


@pytest.mark.parametrize("content, arguments, says", [
    ("", (), "is empty"),
    ("hello", (), "not a notebook"),
    (notebook("x = 1"), (), "Known lessons: 77_toy"),
    (notebook(GOOD_DOUBLE), ("--device", "gpu9000"), "gpu9000"),
    (notebook(GOOD_DOUBLE), ("--json", "/no/such/folder/out.json"), "does not exist"),
])
def test_what_cannot_be_graded_exits_2_and_says_why(tmp_path, capsys, content, arguments, says):
    assert run(write(content, tmp_path / "x.ipynb"), *arguments) == 2
    out, err = capsys.readouterr()
    assert says in err and out == ""


def test_a_worker_that_cannot_start_is_no_zero(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gapless.grading.confine._BOOT", "raise SystemExit('no luck')")
    assert run(write(notebook(GOOD_DOUBLE), tmp_path / "x.ipynb"), "--json", tmp_path / "out.json") == 2
    assert "did not start" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_without_a_sandbox_it_refuses_unless_told(tmp_path, capsys, no_bubblewrap):
    path = write(notebook(GOOD_DOUBLE, SLOW_SQUARE), tmp_path / "x.ipynb")
    assert run(path, "--device", "vgpu") == 2
    out, err = capsys.readouterr()
    assert "bubblewrap" in err and "--unconfined" in err and out == ""
    assert run(path, "--device", "vgpu", "--unconfined") == 0
    assert "Confinement: no sandbox" in capsys.readouterr().out
