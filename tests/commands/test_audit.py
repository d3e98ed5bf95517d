"""``gapless audit`` from the command line, on small scripts."""

import gzip
import json
import linecache
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import jsonschema
import pytest

from gapless.audit.document import SCHEMA
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
        linecache.clearcache()  # another process would not know the file's earlier text either
        return command("audit", "--device", "vgpu:a100", "--no-memory", "--watch", "0", "--warm-up", "1", "--steps", "2", *options, "train.py",
                       *arguments)

    return run


def test_a_script_that_waits(tmp_path, audit):
    done = audit(WAITING, "--out", "-", "--format", "json", "--fail-on-waits")
    found = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA)
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
                  forward=False, tries=(), time_limit=None, fail_on_waits=False, is_module=False, against=None, scratch=False, fast=False)
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
    done = audit(source, "--host", "counted", "--out", "-", "--format", "json", "--try", "tf32,fused")
    found = json.loads(done.stdout)
    tf32, fused = found["trials"]
    assert fused["step_ms"] < 0.9 * tf32["step_ms"] <= found["step_ms"] and not tf32["error"], done.stderr
    done = audit(source, "--try", "magic")
    assert done.returncode == 2 and "known are tf32, amp" in done.stderr


@pytest.mark.slow
def test_without_values_it_waits_and_takes_as_long(audit):
    source = WAITING.replace("for step", "picked = x[y > 1]\nfor step").replace("loss.item() > 100", "loss.item() > 0")
    documents = [json.loads(audit(source, "--host", "counted", "--out", "-", "--format", "json", *more).stdout)
                 for more in ((), ("--fast",))]
    exact, fast = ({name: found[name] for name in ("step_ms", "waits", "kernels_by_kind_ms")} for found in documents)
    assert [found["values"] for found in documents] == [True, False] and exact == fast
    done = audit(source.replace("print(\"large\")", "pass\n    else:\n        raise ValueError(loss.item())"), "--fast")
    assert done.returncode == 2 and "ValueError: 0.0" in done.stderr and "With --fast every value on the device reads" in done.stderr


WAITS = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["the command's imports", "the script's process's imports", "the script"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_by_a_signal_it_takes_the_script_and_its_files_along(tmp_path, number, where):
    (tmp_path / "train.py").write_text(WAITS if where == "the script" else "")
    scratch, first = tmp_path / "scratch", tmp_path / "first"
    scratch.mkdir()
    first.mkdir()
    if where != "the script":  # PyTorch takes ten minutes to be imported
        module = "gapless_command" if where == "the command's imports" else "gapless.audit.child"
        (first / "sitecustomize.py").write_text(f"import sys\nif {module!r} in sys.orig_argv:\n    sys.path.insert(0, {str(first / 'late')!r})")
        (first / "late").mkdir()
        (first / "late" / "torch.py").write_text(WAITS)
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join([str(first), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "gapless_command", "audit", "--device", "vgpu", "train.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True) as audit:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert audit.poll() is None
            time.sleep(0.05)
        os.killpg(audit.pid, number)
        if where == "the command's imports" and number == signal.SIGTERM:
            assert audit.wait() == -number  # nothing has been started
        else:
            assert audit.wait() == 128 + number
        assert audit.stderr.read() == ("stopped\n" if number == signal.SIGINT else "")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert not list(scratch.iterdir())


@pytest.mark.slow
def test_against_an_earlier_audit(tmp_path, audit, command):
    assert audit(FREE, "--host", "counted", "--out", "before.json").returncode == 0
    done = audit(WAITING, "--host", "counted", "--out", "after.json", "--against", "before.json", "--fail-on-waits")
    after = json.loads((tmp_path / "after.json").read_text())
    jsonschema.validate(after, SCHEMA)
    assert done.returncode == 1 and "did not before" in done.stderr and "train.py:16: aten::item" in done.stderr
    assert [(each["how"], each["line"]) for each in after["against"]["lines"] if each["what"] == "wait"] == [("new", "if loss.item() > 100:")]

    done = command("audit", "--against", "before.json", "--fail-on-waits", "--out", "-", "--format", "md", "after.json")
    assert done.returncode == 1 and done.stdout.startswith("# Against the audit of `train.py` before") and "## Waits" not in done.stdout
    done = command("audit", "--against", "after.json", "--fail-on-waits", "--out", "gone.html", "before.json")
    assert done.returncode == 0 and "no longer a wait, aten::item" in (tmp_path / "gone.html").read_text()
    done = audit(FREE, "--device", "vgpu:t4", "--against", "before.json")
    assert done.returncode == 2 and "the same --device" in done.stderr and "warm-up" not in done.stderr


@pytest.mark.slow
def test_files_that_were_there(tmp_path, audit):
    source = WAITING.replace("for step", "from helper import number\n\nfor step").replace("loss.item()", "number(loss)")
    source = source.replace('if number', 'open("log.txt", "a").write("x")\n    if number')
    (tmp_path / "helper.py").write_text("def number(loss):\n    return loss.item()")
    (tmp_path / "log.txt").write_text("")
    done = audit(source, "--scratch", "--out", "page.json")
    found = json.loads((tmp_path / "page.json").read_text())
    assert (tmp_path / "log.txt").read_text() == "" and not found["overwritten"] and "changes" not in done.stderr, done.stderr
    assert found["waits"][0]["location"] == f"{tmp_path.name}/helper.py:2" and found["waits"][0]["line"] == "return loss.item()"
    assert "copies 3 files" in done.stderr and "gapless-audit-" not in (tmp_path / "page.json").read_text()
    assert str(tmp_path / "helper.py").encode() in gzip.decompress((tmp_path / "page.trace.json.gz").read_bytes())

    done = audit(source, "--out", "page.md")
    assert (tmp_path / "log.txt").read_text() and done.stderr.count("the script changes log.txt, which was there before") == 1
    assert "The script changed 1 file of those there before: log.txt." in (tmp_path / "page.md").read_text()
