"""``gapless audit`` from the command line, on small scripts."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from gapless.commands.audit import own_options
from gapless.commands.cli import main

from ..audit.scripts import FREE, HEAD, WAITING


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """``gapless`` in this folder, with what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        try:
            code = main(list(arguments))
        except SystemExit as error:  # argparse
            code = error.code
        said = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=said.out, stderr=said.err)

    return run


@pytest.fixture
def audit(tmp_path, command):
    """An audit of a script with this source, in two steps after one."""

    def run(source, *options, arguments=()):
        (tmp_path / "train.py").write_text(source)
        return command("audit", "--device", "vgpu:a100", "--no-memory", "--watch", "0", "--warm-up", "1", "--steps", "2", *options, "train.py",
                       *arguments)

    return run


def test_a_script_that_waits(tmp_path, audit):
    done = audit(WAITING, "--out", "-", "--format", "json", "--fail-on-waits")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and "train.py:16: aten::item" in done.stderr
    assert found["simulated"] and found["device"] == "NVIDIA A100-SXM4-40GB" and found["steps"] == 2
    (wait,) = found["waits"]
    assert wait["times"] == 1 and wait["line"] == "if loss.item() > 100:" and wait["advice"]["lesson"] == "00"
    assert "never reached" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_one_that_does_not(tmp_path, audit):
    done = audit(FREE, "--fail-on-waits", "--out", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert done.returncode == 0, done.stderr
    assert "None: the host never waits for the GPU." in page and page.count("<svg") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "page.html", "page.trace.json.gz"}


@pytest.mark.parametrize("behind, own, given", [
    ("", {}, ""),
    ("--epochs 1 --steps 9", {}, "--epochs 1 --steps 9"),
    ("--out a.md --fail-on-waits", {"out": "a.md", "fail_on_waits": True}, ""),
    ("--steps=9 -- --steps 1", {"steps": 9}, "--steps 1"),
    ("-- --steps 1 -- x", {}, "--steps 1 -- x"),
    ("-m resnet18 --no-memory", {}, "-m resnet18 --no-memory"),
    ("--fail --out x", {}, "--fail --out x"),
    ("data --out x", {}, "data --out x"),
], ids=str)
def test_options_behind_the_script(behind, own, given):
    before = dict(out=None, format=None, device="vgpu", host="measured", steps=2, watch=5.0, warm_up=None, no_memory=False,
                  forward=False, tries=(), time_limit=None, fail_on_waits=False, is_module=False)
    arguments = SimpleNamespace(**before, script=["train.py", *behind.split()])
    assert own_options(arguments) == given.split()
    assert vars(arguments) == {**before, **own, "script": arguments.script}


def test_options_behind_the_script_that_are_wrong(command, tmp_path):
    (tmp_path / "train.py").write_text("")
    done = command("audit", "train.py", "--steps", "many")
    assert done.returncode == 2 and "'many' is not a number of steps" in done.stderr


def test_its_own_arguments_path_and_folder(tmp_path, audit):
    (tmp_path / "helper.py").write_text("SIZE = 8")
    source = ("import argparse, os, sys\nfrom helper import SIZE\nparser = argparse.ArgumentParser()\n"
              "parser.add_argument('--out')\nassert parser.parse_args().out == 'mine' and __name__ == '__main__'\n"
              "assert os.path.exists('train.py') and sys.argv[0] == 'train.py'\n" + WAITING)
    done = audit(source, "--out", "a.md", arguments=("--", "--out", "mine"))
    assert done.returncode == 0 and "aten::item" in (tmp_path / "a.md").read_text(), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("source, said", [
    ("print('hello')", "without a training loop"),
    ("import sys; sys.exit(3)", "exited with status 3 without a training loop"),
    ("raise KeyboardInterrupt", "was interrupted"),
    ("open('data/train.bin')", "the script failed at"),
    ("def f(:", "SyntaxError"),
    (HEAD + "model(torch.ones(3, 9).cuda())", "On CPU tensors it fails too (RuntimeError): that is the script's own"),
    (HEAD + "torch.ones(200_000, 200_000, device='cuda')", "The modelled card's memory is full"),
    (HEAD + "loss = model(x).sum()\nloss.backward()\noptimizer.step()", "after one step, and two are needed"),
    ("import os; os._exit(5)", "ended with status 5"),
    (HEAD + "x.__dlpack__()", "On CPU tensors it does not fail"),
])
def test_scripts_with_nothing_to_audit(tmp_path, audit, source, said):
    done = audit(source)
    assert done.returncode == 2 and said in done.stderr and "gapless/audit" not in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.parametrize("arguments, said", [
    (("nowhere.py",), "there is no file nowhere.py"), (("--steps", "0", "x.py"), "'0' is not a number of steps"),
    (("--out", "no/such/page.html", "train.py"), "does not exist"), (("--device", "vgpu:abacus", "train.py"), "no device is called"),
    (("--out", "page.pdf", "train.py"), "name it .html, .md or .json"),
])
def test_what_cannot_be(tmp_path, command, arguments, said):
    (tmp_path / "train.py").write_text("raise SystemExit(7)")
    done = command("audit", *arguments)
    assert done.returncode == 2 and said in done.stderr


@pytest.mark.slow
def test_what_is_tried(audit):
    source = WAITING.replace("optim.SGD(", "optim.AdamW(")
    done = audit(source, "--out", "-", "--format", "json", "--try", "tf32,fused")
    found = json.loads(done.stdout)
    tf32, fused = found["trials"]
    assert fused["step_ms"] < 0.9 * tf32["step_ms"] <= found["step_ms"] and not tf32["error"], done.stderr
    done = audit(source, "--try", "magic")
    assert done.returncode == 2 and "known are tf32, amp" in done.stderr


@pytest.mark.slow
def test_ended_by_a_signal_it_takes_the_script_and_its_files_along(tmp_path):
    (tmp_path / "train.py").write_text("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "gapless.commands.cli", "audit", "--device", "vgpu", "train.py"]
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "TMPDIR": str(scratch)}, stderr=subprocess.DEVNULL) as audit:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert audit.poll() is None
            time.sleep(0.05)
        audit.terminate()
        assert audit.wait() == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert not list(scratch.iterdir())
