"""Files appear whole or not at all."""

import json
import os

import pytest

from gapless.files import write_bytes, write_json


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
