"""The file of progress: what is remembered, and that nothing of it is lost."""

import json
import os
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from gapless.learner import progress_file
from gapless.learner.progress_file import Record, home, progress_path, read_progress, record_check, record_hint

from .. import forked

DEVICE = "NVIDIA A10G (simulated)"


def test_best_stays_and_last_is_the_last(progress_home):
    for earned in (2, 5, 3):
        assert record_check("lesson", "exercise", earned, 5, DEVICE) == ""
    records, remark = read_progress()
    record = records["lesson"]["exercise"]
    assert (record.best, record.last, record.points, record.attempts, record.device, remark) == (5, 3, 5, 3, DEVICE, "")
    assert record.when.startswith("20") and record.when.endswith("+00:00")


def test_hints_and_checks_of_one_exercise_are_one_record(progress_home):
    record_hint("lesson", "exercise", 2)
    record_hint("lesson", "exercise", 1)
    record_check("lesson", "exercise", 1, 5, DEVICE)
    record = read_progress()[0]["lesson"]["exercise"]
    assert (record.hints, record.attempts, record.best) == (2, 1, 1)


def test_nothing_recorded_is_no_error(progress_home):
    assert read_progress() == ({}, "") and not progress_home.exists()


WRITERS = """
import os
from gapless.learner.progress_file import record_check
for name in "abc":
    if os.fork() == 0:
        for number in range(30):
            remark = record_check("lesson", name, number, 30, "d")
            assert remark == "", remark
        break
else:
    assert [os.wait()[1] for name in "abc"] == [0, 0, 0]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_notebooks_that_write_at_once_lose_nothing(progress_home):
    done = forked.run("-c", WRITERS)
    assert (done.returncode, done.stderr) == (0, "")
    assert {name: record.attempts for name, record in read_progress()[0]["lesson"].items()} == {"a": 30, "b": 30, "c": 30}


RECORD = {"best": 1, "last": 1, "points": 2, "attempts": 1, "hints": 0, "device": "d", "when": "w"}


@pytest.mark.parametrize("content", [
    "", "{", "[]", "3", '{"version": 1}', '{"version": 1, "lessons": []}', '{"version": 1, "lessons": {"l": 3}}', "\x00\x01",
    json.dumps({"version": 1, "lessons": {"l": {"e": RECORD | {"best": "5"}}}}),
    json.dumps({"version": 1, "lessons": {"l": {"e": RECORD | {"attempts": -1}}}}),
    json.dumps({"version": 1, "lessons": {"l": {"e": RECORD | {"best": float("nan")}}}}),
    json.dumps({"version": 1, "lessons": {"l": {"e": RECORD | {"more": 1}}}}),
])
def test_a_damaged_file_is_kept_aside(progress_home, content):
    progress_home.mkdir()
    progress_path().write_text(content)
    assert "is damaged" in read_progress()[1] and progress_path().read_text() == content
    remark = record_check("lesson", "exercise", 1, 5, DEVICE)
    aside, = progress_home.glob("progress.json.damaged-*")
    assert str(aside) in remark and aside.read_text() == content
    assert read_progress()[0]["lesson"]["exercise"].best == 1


def test_two_damaged_files_in_one_second_are_both_kept(progress_home):
    progress_home.mkdir()
    for content in ("one", "two"):
        progress_path().write_text(content)
        record_check("lesson", "exercise", 1, 5, DEVICE)
    assert {path.read_text() for path in progress_home.glob("*.damaged-*")} == {"one", "two"}


def test_a_file_of_a_newer_version_is_left_alone(progress_home):
    progress_home.mkdir()
    progress_path().write_text('{"version": 2, "lessons": {}}')
    assert "newer version" in record_check("lesson", "exercise", 1, 5, DEVICE)
    assert progress_path().read_text() == '{"version": 2, "lessons": {}}' and "newer" in read_progress()[1]


def test_where_nothing_can_be_written_a_sentence_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GAPLESS_HOME", str(tmp_path / "file" / "home"))
    assert record_check("lesson", "exercise", 1, 5, DEVICE).startswith("Your progress was not saved: ")
    assert record_hint("lesson", "exercise", 1).startswith("Your progress was not saved: ")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_no_error(progress_home):
    progress_home.mkdir(mode=0o500)
    assert "not saved" in record_check("lesson", "exercise", 1, 5, DEVICE)


def test_a_lock_that_is_held_too_long_is_no_error(progress_home, monkeypatch):
    monkeypatch.setattr(progress_file, "_LOCK_SECONDS", 0.1)
    progress_home.mkdir()
    with FileLock(f"{progress_path()}.lock"):
        assert "another notebook holds" in record_check("lesson", "exercise", 1, 5, DEVICE)
    assert record_check("lesson", "exercise", 1, 5, DEVICE) == ""


@pytest.mark.parametrize("platform, variables, expected", [
    ("linux", {}, "HOME/.local/share/gapless"),
    ("linux", {"XDG_DATA_HOME": "/data"}, "/data/gapless"),
    ("linux", {"XDG_DATA_HOME": "relative"}, "HOME/.local/share/gapless"),
    ("darwin", {"XDG_DATA_HOME": "/data"}, "HOME/Library/Application Support/gapless"),
    ("win32", {"LOCALAPPDATA": "/local"}, "/local/gapless"),
    ("win32", {}, "HOME/AppData/Local/gapless"),
    ("linux", {"GAPLESS_HOME": "/mine", "XDG_DATA_HOME": "/data"}, "/mine"),
])
def test_each_platform_has_its_place(monkeypatch, platform, variables, expected):
    for name in ("GAPLESS_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert home() == Path(expected.replace("HOME", str(Path.home())))


def test_a_platform_without_a_home_is_no_error(monkeypatch):
    def no_home():
        raise RuntimeError("no home")

    for name in ("GAPLESS_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert "set GAPLESS_HOME" in record_check("lesson", "exercise", 1, 5, DEVICE)
    assert read_progress()[0] == {} and "set GAPLESS_HOME" in read_progress()[1]


def test_a_record_begins_with_nothing():
    assert Record() == Record(best=0, last=0, points=0, attempts=0, hints=0, device="", when="")
