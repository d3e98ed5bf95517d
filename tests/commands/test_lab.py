"""``gapless lab``: which command it starts, and what it says where it cannot. tests/test_index_notebook.py opens a real server."""

import importlib.util
import signal
import sys

import pytest

from gapless.commands import lab


@pytest.fixture
def started(monkeypatch):
    """The commands that were started, in place of JupyterLab."""
    commands, popen = [], lab.subprocess.Popen
    monkeypatch.setattr(lab.subprocess, "Popen", lambda command: commands.append(command) or popen([sys.executable, "-c", "raise SystemExit(7)"]))
    return commands


@pytest.mark.parametrize("user, options", [(1000, []), (0, ["--allow-root"])])
def test_opens_the_index_by_this_interpreter(tmp_path, gapless, started, monkeypatch, user, options):
    monkeypatch.setattr(lab.os, "geteuid", lambda: user)
    before = signal.getsignal(signal.SIGINT)
    (tmp_path / "index.ipynb").write_text("{}")
    assert gapless("lab", tmp_path, "--", "--no-browser", "--port=9")[0] == 7
    assert started == [[sys.executable, "-m", "jupyterlab", f"--notebook-dir={tmp_path}", "--LabApp.default_url=/lab/tree/index.ipynb",
                        *options, "--no-browser", "--port=9"]]
    assert signal.getsignal(signal.SIGINT) is before


def test_in_the_repository_it_opens_its_notebooks(tmp_path, gapless, started, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "index.ipynb").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert gapless("lab")[0] == 7 and "--notebook-dir=notebooks" in started[0]
    assert gapless("lab", "--", "--no-browser", "--port=9")[0] == 7
    assert "--notebook-dir=notebooks" in started[1] and started[1][-2:] == ["--no-browser", "--port=9"]


def test_a_folder_without_lessons(tmp_path, gapless, started):
    status, _, err = gapless("lab", tmp_path)
    assert status == 2 and "gapless start my-course" in err and not started


def test_without_jupyterlab_it_says_what_to_install(tmp_path, gapless, started, monkeypatch):
    (tmp_path / "index.ipynb").write_text("{}")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "jupyterlab" else find(name, *rest))
    status, _, err = gapless("lab", tmp_path)
    assert status == 2 and "pip install 'gapless[lab]'" in err and "Traceback" not in err and not started
