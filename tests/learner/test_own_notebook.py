"""Which notebook this is: Colab's answer, and what JupyterLab and VS Code say. JPY_SESSION_NAME as jupyter_server sets it is
tried with a real server in test_notebook_in_kernel.py."""

import json
import sys
import types
from pathlib import Path

import pytest

import gapless
from gapless.course.notebooks.submission import SubmissionError
from gapless.learner import own_notebook
from gapless.learner.own_notebook import NotFound, find_own_notebook

from .. import ROOT
from ..grading.toy import GOOD_DOUBLE, notebook, write

ID = "02_masked_loss"
CELL = "# exercise: ignore_background\ndef ignore_background(target):\n    return target\n"


@pytest.fixture
def colab(monkeypatch):
    """The part of google.colab that is asked: ``_message.blocking_request`` and ``files.download``, as in its repository."""
    answers, downloaded = [], []

    def blocking_request(request_type, request="", timeout_sec=5, parent=None):
        assert request_type == "get_ipynb" and timeout_sec
        answer = answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    google, package = types.ModuleType("google"), types.ModuleType("google.colab")
    package._message = types.SimpleNamespace(blocking_request=blocking_request)
    package.files = types.SimpleNamespace(download=downloaded.append)
    google.colab = package
    monkeypatch.setitem(sys.modules, "google", google)
    monkeypatch.setitem(sys.modules, "google.colab", package)
    return answers, downloaded


@pytest.fixture
def shell(monkeypatch):
    """What a notebook's kernel says of itself."""
    said = types.SimpleNamespace(user_ns={}, history_manager=types.SimpleNamespace(input_hist_raw=[], input_hist_parsed=[]))
    for module in ("own_notebook", "marked_cell"):
        monkeypatch.setattr(f"gapless.learner.{module}.ipython_shell", lambda: said)
    return said


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    return tmp_path


def test_colab_is_asked_and_downloads(colab, here):
    answers, downloaded = colab
    content = notebook(CELL, colab={"name": f"Copy of {ID}.ipynb", "provenance": []})
    del content["nbformat_minor"]
    answers.append({"ipynb": content})
    made = gapless.Notebook(ID, device="vgpu:a10g").submit(name="ada")
    assert downloaded == [str(made.path)] == [str(here / "hand_in" / f"ada--{ID}.ipynb")]
    assert "Your browser downloads it" in str(made) and "href" not in made._repr_html_()


@pytest.mark.parametrize("answer", [None, {}, {"ipynb": {"nbformat": 3}}, RuntimeError("no front end")])
def test_where_colab_s_front_end_gives_no_answer_the_others_are_asked(colab, shell, here, answer):
    colab[0].append(answer)
    with pytest.raises(NotFound, match="name it"):
        find_own_notebook(ID)
    shell.user_ns["__vsc_ipynb_file__"] = str(write(notebook(CELL), here / "mine.ipynb"))
    assert find_own_notebook(ID).path == here / "mine.ipynb"


def test_a_download_that_fails_leaves_the_file(colab):
    colab[0].append({"ipynb": notebook(CELL)})
    sys.modules["google.colab"].files.download = lambda path: 1 / 0
    made = gapless.Notebook(ID, device="vgpu:a10g").submit()
    assert made.path.is_file() and "division by zero" in str(made) and str(made.path) in str(made)


def test_jupyter_and_vs_code_say_which_file_it_is(shell, here, monkeypatch):
    path = write(notebook(CELL), here / "mine.ipynb")
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    assert find_own_notebook(ID).path == path
    monkeypatch.setenv("JPY_SESSION_NAME", "course/mine.ipynb")  # from the server's folder, as some versions say it
    assert find_own_notebook(ID).path == path
    shell.user_ns["__vsc_ipynb_file__"] = str(write(notebook(CELL), here / "vs.ipynb"))
    assert find_own_notebook(ID).path == here / "vs.ipynb"


def test_one_that_is_gone_and_one_that_is_broken(shell, here, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(here / "old.ipynb"))
    with pytest.raises(NotFound, match="old.ipynb, under which it was opened, is not here: was it renamed"):
        find_own_notebook(ID)
    write("{", here / "old.ipynb")
    with pytest.raises(SubmissionError, match="not JSON"):
        find_own_notebook(ID)


def test_the_file_that_is_likely_meant_is_named(here):
    write(notebook(GOOD_DOUBLE, gapless={"lesson": "78_other"}), here / "other.ipynb")
    write("{", here / "broken.ipynb")
    write(notebook(CELL, gapless={"lesson": ID}), here / "Copy of it.ipynb")
    with pytest.raises(NotFound, match=r'lesson.submit\("Copy of it.ipynb"\)'):
        find_own_notebook(ID)
    write(notebook(CELL, gapless={"lesson": ID}), here / "another.ipynb")
    with pytest.raises(NotFound, match=rf'lesson.submit\("{ID}.ipynb"\)'):
        find_own_notebook(ID)


def test_a_file_that_was_not_saved_since_is_no_submission(shell, here, monkeypatch):
    """The file's cells beside those that ran: the newest run of each, whatever blanks end its lines."""
    monkeypatch.setenv("JPY_SESSION_NAME", str(write(notebook(CELL), here / "mine.ipynb")))
    lesson = gapless.Notebook(ID, device="vgpu:a10g")
    history = shell.history_manager.input_hist_raw
    history += ["x = 1", CELL.replace("target\n", "target + 1\n"), CELL.replace("\n", "  \n") + "\n"]
    assert lesson.submit().path == Path("hand_in", f"{ID}.ipynb").resolve()
    history.append(CELL.replace("return target", "return target + 2"))
    made = lesson.submit()
    assert made.path is None and "the text of ignore_background is not what you ran last" in str(made) and "Ctrl-S" in str(made)
    history.append(CELL)
    assert lesson.submit().path is not None


def test_run_all_in_a_notebook_as_handed_out_makes_and_downloads_nothing(colab, here):
    colab[0].append({"ipynb": json.loads((ROOT / "notebooks" / ID / f"{ID}.ipynb").read_text())})
    made = gapless.Notebook(ID, device="vgpu:a10g").submit()
    assert made.path is None and "have not changed any exercise" in str(made) and not colab[1] and not list(here.iterdir())


def test_timeouts_are_short_enough_to_wait_for():
    assert 5 <= own_notebook._ANSWER_SECONDS <= 60
