"""Which files that were there a script changes, and the copy of a folder that it runs in."""

import gzip
import json
import os
import subprocess
import sys
import time

import pytest

from gapless.audit import side_effects
from gapless.audit.launch import AuditError

# In a process of its own, as Python takes no audit hook back.
SCRIPT = """
import json, os, shutil, sys, tempfile
import torch
from gapless.audit.side_effects import watch

found = watch(float(sys.argv[1]))
for name in ("read", "new"):  # neither of them counts
    open(f"{name}.txt", "r" if name == "read" else "w").close()
open("new.txt", "a").close()
open(".cache/hidden.txt", "w").close()
open(os.devnull, "w").close()
os.remove("new.txt")
tempfile.TemporaryFile().close()
try:
    open("missing/file.txt", "w")
except FileNotFoundError:
    pass

open("open.txt", "w").close()
open("open.txt", "a").close()
with open("log.txt", "a") as log:
    log.write("more")
torch.save({}, "saved.pt")
os.replace("moved.txt", "target.txt")
os.remove("removed.txt")
shutil.rmtree("runs")
print(json.dumps(found))
"""


def test_what_is_changed(tmp_path):
    changed = ["open.txt", "log.txt", "saved.pt", "moved.txt", "target.txt", "removed.txt", "runs/1/log.txt"]
    for name in ["read.txt", ".cache/hidden.txt", *changed]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(time.time())], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == changed
    assert done.stderr.count("gapless audit:") == 1 and "the script changes open.txt, which was there before" in done.stderr


@pytest.fixture
def source(tmp_path):
    """A folder with what a project has; data lies elsewhere, behind a link."""
    folder = tmp_path / "project"
    for name in ("train.py", "data/a.bin", ".git/config", "env/pyvenv.cfg", "env/lib/x.py", "package/__pycache__/x.pyc", "package/x.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "checkpoints").mkdir()
    (tmp_path / "large").mkdir()
    os.symlink(tmp_path / "large", folder / "outside")
    os.symlink("data/a.bin", folder / "inside")
    os.mkfifo(folder / "pipe")
    return folder


def test_what_is_copied(source, tmp_path, capsys):
    copy = tmp_path / "copy"
    side_effects.copy_folder(source, copy)
    assert {path.relative_to(copy).as_posix() for path in copy.rglob("*")} == {
        "train.py", "data", "data/a.bin", "package", "package/x.py", "checkpoints", "outside", "inside"}
    assert (copy / "outside").resolve() == tmp_path / "large" and (copy / "inside").resolve() == copy / "data" / "a.bin"
    assert f"copies 3 files (0.0 MB) of {source}" in capsys.readouterr().err


def test_a_folder_that_is_too_large_is_not(source, tmp_path, monkeypatch):
    monkeypatch.setattr(side_effects, "MOST_BYTES", 20)
    with pytest.raises(AuditError, match=r"would copy .* \(package .*move data elsewhere and leave a link"):
        side_effects.copy_folder(source, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_paths_in_files_are_those_of_the_folder(tmp_path):
    source, copy = tmp_path / "prüf\\e", tmp_path / "copÿ"
    trace, facts = tmp_path / "trace.json.gz", tmp_path / "facts.json"
    value = {"name": f"{copy}/train.py(3): step"}
    trace.write_bytes(gzip.compress(json.dumps(value).encode()))
    facts.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    side_effects.name_as_in(source, copy, [trace, facts, tmp_path / "none.json"])
    assert json.loads(gzip.decompress(trace.read_bytes())) == json.loads(facts.read_bytes()) == {"name": f"{source}/train.py(3): step"}
