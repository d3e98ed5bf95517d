"""Files of our own and of others."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gapless.files import InUse, check_writable, locked, read_regular, temporary_folder


def test_reads_what_is_in_a_file_of_that_size(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="it is larger than"):
        read_regular(path, 4)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files here")
def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "endless", "loop", "nothing", "."):
        with pytest.raises(OSError):
            read_regular(tmp_path / name, 100)


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are rare here")
def test_links_are_followed_where_wanted(tmp_path):
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 1) == b"1"
    with pytest.raises(OSError):
        read_regular(tmp_path / "link", 1, follow_links=False)


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
