"""Files appear whole or not at all; files of others, and folders that somebody filled who meant no good."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from gapless.files import (
    InUse,
    between,
    check_writable,
    locked,
    read_regular,
    remove_tree,
    temporary_folder,
    write_bytes,
    write_json,
)


def test_json_is_written_with_its_folders(tmp_path):
    path = tmp_path / "new" / "a.json"
    write_json(path, {"name": "µ"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"name": "µ"}
    assert os.listdir(path.parent) == ["a.json"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_bytes(path, b"old")

    def fail(*paths):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_permissions_stay(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"")
    path.chmod(0o640)
    write_bytes(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o640


def nested(folder, depth):
    """Folders in one another, made as a process would that goes down with them."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    try:
        for _ in range(depth):
            os.mkdir("x" * 100)
            os.chdir("x" * 100)
    finally:
        os.fchdir(before)
        os.close(before)


@pytest.mark.skipif(os.name != "posix", reason="paths are not as long elsewhere")
def test_any_tree_is_removed(tmp_path):
    tree = tmp_path / "tree"
    (tree / "0" / "0").mkdir(parents=True)
    (tree / "1").write_text("in the way of names")
    (tree / "0" / "link").symlink_to(tmp_path)
    (tree / "locked" / "inner").mkdir(parents=True)
    (tree / "locked" / "inner").chmod(0)
    (tree / "locked").chmod(0)
    os.mkfifo(tree / "pipe")
    nested(tree, 1200)
    with pytest.raises((RecursionError, OSError)):
        shutil.rmtree(tree)
    remove_tree(tree)
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_is_gone_afterwards():
    with pytest.raises(KeyError):
        with temporary_folder("gapless-test-") as folder:
            (folder / "a" / "b").mkdir(parents=True)
            assert folder == folder.resolve()
            raise KeyError
    assert not folder.exists()


def test_a_file_is_read_up_to_its_limit(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_regular(file, 5) == b"12345"
    with pytest.raises(OSError, match="larger than"):
        read_regular(file, 4)


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
def test_links_are_followed_where_they_may_be(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="it is a link"):
        read_regular(tmp_path / "link", 5, follow_links=False)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "pipe", 5)


def test_a_path_that_cannot_be_written_is_told_and_nothing_is_changed(tmp_path):
    (tmp_path / "out").write_text("before")
    check_writable(tmp_path / "out")
    check_writable(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and (tmp_path / "out").read_text() == "before"
    for path, says in ((tmp_path, "is a folder"), (tmp_path / "no" / "out", "does not exist"), (tmp_path / "out" / "x", "not exist")):
        with pytest.raises(OSError, match=says):
            check_writable(path)


HOLD = "import sys, time; from gapless.files import locked\nwith locked(sys.argv[1]): print('held', flush=True); time.sleep(100)"


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path):
    path = tmp_path / "lock"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        with pytest.raises(InUse, match=f"process {process.pid} on ") as refused, locked(path):
            pass
        assert "since" in str(refused.value)
    finally:
        process.kill()
        process.wait()
    with locked(path), pytest.raises(InUse, match=f"process {os.getpid()} "), locked(path):
        pass
    with locked(path):
        pass


def test_a_lock_is_waited_for_as_long_as_asked(tmp_path):
    path = tmp_path / "lock"
    with locked(path), pytest.raises(InUse), locked(path, 0.2):
        pass
    first = locked(path)
    first.__enter__()
    letting_go = threading.Timer(0.3, first.__exit__, (None, None, None))
    letting_go.start()
    with locked(path, 60):
        letting_go.join()


def test_a_folder_whose_owner_was_killed_before_its_lock_is_cleared_when_it_is_old(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, hours in (("gapless-new", 0), ("gapless-old", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".owner").touch()
        os.utime(tmp_path / name / ".owner", (time.time() - 3600 * hours,) * 2)
    with temporary_folder():
        assert (tmp_path / "gapless-new").exists() and not (tmp_path / "gapless-old").exists()


def test_temporary_folders_of_the_killed_are_cleared_and_of_the_living_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    code = ("from gapless.files import temporary_folder; import time\n"
            "with temporary_folder() as folder: (folder / 'x').mkdir(); print(folder, flush=True); time.sleep(100)")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    theirs = Path(process.stdout.readline().strip())
    (tmp_path / "gapless-of-somebody").mkdir()
    with temporary_folder() as ours:
        assert theirs.exists()
        process.kill()
        process.wait()
        with temporary_folder():
            assert not theirs.exists() and ours.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["gapless-of-somebody"]


def test_what_stands_between_two_marks_is_replaced():
    text = "a\n<b>\n\nold\n\n</b>\nz\n"
    assert between(text, "<b>", "</b>", "new") == "a\n<b>\n\nnew\n\n</b>\nz\n"
    assert between(between(text, "<b>", "</b>", "new"), "<b>", "</b>", "old") == text


@pytest.mark.parametrize("text", ["", "<b> only", "</b> only", "</b> <b>", "<b> <b> </b>"])
def test_marks_that_are_missing_are_named(text):
    with pytest.raises(ValueError, match="<b>.*</b>"):
        between(text, "<b>", "</b>", "new")
