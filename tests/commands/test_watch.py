"""``gapless watch``: what is checked after which save."""

import os
import signal
import subprocess
import sys
import time

import pytest

from gapless.commands.fresh import Checked
from gapless.commands.watch import GIVEN_UP_SECONDS, SETTLED_SECONDS, Watch
from gapless.course.notebooks.submission import SubmissionError
from gapless.learner.progress_file import record_hint

from .learner import LESSON, SOLVED


class Watching:
    """A watch with a clock and a check of its own: no second passes, and what would be run is written down."""

    def __init__(self, target):
        self.now, self.ran, self.said, self.answer = 0.0, [], [], Checked(2, False, "syncs: one is left")
        self.watch = Watch(target, self.check, self.said.append, lambda: self.now)

    def check(self, lesson_id, name, source, outdated):
        self.ran.append((lesson_id, name, source))
        return self.answer(outdated) if callable(self.answer) else self.answer

    def wait(self, seconds=1.1 * SETTLED_SECONDS):
        """Poll now, and again after ``seconds``; the exercises that were run."""
        self.ran.clear()
        self.watch.poll()
        self.now += seconds
        self.watch.poll()
        return [name for _, name, _ in self.ran]


@pytest.fixture
def watching(notebook):
    return Watching(notebook)


def test_only_what_a_save_changed_is_checked(watching, notebook, put):
    assert watching.wait() == []
    put(notebook, "ignore_background", SOLVED)
    assert watching.wait() == ["ignore_background"] and watching.ran[0][2] == SOLVED
    assert watching.wait() == []
    os.utime(notebook, (1, 1))
    assert watching.wait() == [], "saved again without a change"


def test_begin_checks_what_was_written_and_not_what_was_handed_out(notebook, put):
    put(notebook, "zero_if_uniform", "# exercise: zero_if_uniform\nmine = 1\n")
    watching = Watching(notebook)
    watching.watch.begin()
    assert [name for _, name, _ in watching.ran] == ["zero_if_uniform"]


def test_nothing_is_checked_before_the_file_has_settled(watching, notebook, put):
    put(notebook, "ignore_background", SOLVED)
    assert watching.wait(SETTLED_SECONDS / 2) == []
    put(notebook, "zero_if_uniform", "# exercise: zero_if_uniform\nmine = 1\n")
    assert watching.wait(SETTLED_SECONDS / 2) == []
    assert watching.wait() == ["ignore_background", "zero_if_uniform"]


def test_a_half_written_file_is_waited_for(watching, notebook, put):
    put(notebook, "ignore_background", SOLVED)
    whole = notebook.read_bytes()
    notebook.write_bytes(whole[:1000])
    assert watching.wait() == [] and watching.said == []
    notebook.write_bytes(whole)
    assert watching.wait() == ["ignore_background"]


def test_a_file_that_stays_unreadable_is_told_once_and_forgiven(watching, notebook, put):
    whole = notebook.read_bytes()
    notebook.write_text("{")
    for _ in range(4):
        assert watching.wait(GIVEN_UP_SECONDS) == []
    assert len(watching.said) == 1 and "not a notebook" in watching.said[0]
    notebook.write_bytes(whole)
    put(notebook, "ignore_background", SOLVED)
    assert watching.wait() == ["ignore_background"]


def test_a_file_that_is_gone_for_a_moment_is_waited_for(watching, notebook, put):
    put(notebook, "ignore_background", SOLVED)
    notebook.rename(notebook.with_suffix(".away"))
    assert watching.wait() == []
    notebook.with_suffix(".away").rename(notebook)
    assert watching.wait() == ["ignore_background"]


def test_a_save_during_a_check_ends_it_and_the_new_text_is_checked(watching, notebook, put):
    put(notebook, "ignore_background", "# exercise: ignore_background\nwhile True: pass\n")

    def edited_meanwhile(outdated):
        assert not outdated()
        put(notebook, "zero_if_uniform", "# exercise: zero_if_uniform\nmine = 1\n")
        assert not outdated(), "another cell has changed"
        put(notebook, "ignore_background", SOLVED)
        assert outdated()

    watching.answer = edited_meanwhile
    assert watching.wait() == ["ignore_background"] and "changed meanwhile" in watching.said[-2]
    watching.answer = Checked(5, True, "")
    assert watching.wait() == ["ignore_background", "zero_if_uniform"] and watching.ran[0][2] == SOLVED


def test_a_cell_that_is_gone_is_told_with_the_way_back(watching, notebook, put):
    put(notebook, "ignore_background", None)
    assert watching.wait() == []
    assert f"gapless reset {notebook} ignore_background" in watching.said[-1]


def test_a_line_has_a_bar_the_reason_and_the_next_hint(watching, notebook, put):
    put(notebook, "ignore_background", SOLVED)
    watching.wait()
    text = "\n".join(watching.said)
    assert "ignore_background     [####........] 2 of 5  not yet" in text and "syncs: one is left" in text
    assert 'next: hint 1 of 3, lesson.hint("ignore_background")' in text and "best so far: 0 of 21 points" in text
    for stage, says in ((1, "hint 2 of 3"), (3, "all hints are taken")):
        record_hint(LESSON, "ignore_background", stage)
        put(notebook, "ignore_background", SOLVED + "#" * stage)
        watching.said.clear()
        watching.wait()
        assert says in "\n".join(watching.said)
    watching.answer = Checked(5, True, "")
    put(notebook, "ignore_background", SOLVED)
    watching.said.clear()
    watching.wait()
    assert "5 of 5  passed" in "\n".join(watching.said) and "hint" not in "\n".join(watching.said)


def test_a_folder_is_watched_for_all_notebooks_and_new_ones(notebook, put, tmp_path):
    (tmp_path / "course" / "notes.ipynb").write_text('{"cells": [], "nbformat": 4}')
    (tmp_path / "course" / ".ipynb_checkpoints").mkdir()
    (tmp_path / "course" / ".ipynb_checkpoints" / "copy.ipynb").write_bytes(notebook.read_bytes())
    watching = Watching(tmp_path)
    watching.watch.begin()
    assert watching.said == [f"watching {notebook}"] and watching.ran == []
    other = tmp_path / f"{LESSON}.ipynb"
    other.write_bytes(notebook.read_bytes())
    assert len(watching.wait()) == 4, "a new notebook is checked whole"
    put(other, "ignore_background", SOLVED)
    assert watching.wait() == ["ignore_background"]


@pytest.mark.parametrize("content, says", [(None, "no lesson's notebook in"), ("{}", "no lesson's notebook in")])
def test_raises_when_a_folder_has_nothing_to_watch(tmp_path, content, says):
    if content is not None:
        (tmp_path / "x.ipynb").write_text(content)
    with pytest.raises(SubmissionError, match=says):
        Watching(tmp_path)


def test_raises_when_the_notebook_cannot_be_read(tmp_path):
    (tmp_path / "x.ipynb").write_text("hello")
    with pytest.raises(SubmissionError, match="not a notebook"):
        Watching(tmp_path / "x.ipynb")


@pytest.mark.parametrize("arguments, says", [(("nowhere",), "there is no nowhere"), ((".", "--device", "gpu9000"), "no device")])
def test_what_cannot_be_watched_is_exit_2(tmp_path, monkeypatch, gapless, arguments, says):
    monkeypatch.chdir(tmp_path)
    status, _, err = gapless("watch", *arguments)
    assert status == 2 and says in err


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_the_whole_command_checks_after_a_save_and_ends_with_ctrl_c(notebook, put, tmp_path):
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "gapless.commands.cli", "watch", str(notebook)], stdout=log, stderr=log)

    def wait_for(text):
        end = time.monotonic() + 120
        while text not in (tmp_path / "log").read_text():
            assert time.monotonic() < end and process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)

    try:
        wait_for("watching")
        put(notebook, "ignore_background", SOLVED)
        wait_for("5 of 5  passed")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0 and "No longer watching" in (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()
