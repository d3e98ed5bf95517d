"""The command line: what it prints and how it ends."""

import json
import os
import subprocess
import sys

import pytest

from gapless.commands.cli import COMMANDS, main


@pytest.mark.parametrize("command", [["record", "--out", "-"], ["demo"]])
def test_unknown_device_is_exit_2(capsys, command):
    assert main([*command, "--device", "vgpu:nothing"]) == 2
    assert "known are cuda, vgpu, vgpu:t4" in capsys.readouterr().err


def test_unknown_command_says_which_there_are(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["nothing"])
    assert ended.value.code == 2 and "trace" in capsys.readouterr().err


# -- without PyTorch ------------------------------------------------------------------------------

BROKEN = 'raise OSError("libtorch.so: cannot open shared object file")'
SHADOW = "def tensor(*numbers): ..."  # somebody's own file of that name


@pytest.fixture(params=[BROKEN, SHADOW], ids=["broken", "shadowed"])
def without_torch(request, tmp_path):
    """Run Python with a torch that is none."""
    (tmp_path / "torch.py").write_text(request.param)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    def run(*arguments):
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300)

    return run


def test_help_lists_every_command_without_pytorch(without_torch):
    done = without_torch("-m", "gapless.commands.cli", "--help")
    assert done.returncode == 0 and all(f"    {name}" in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["progress"], ["check", "x.ipynb"], ["census"], ["watch"], ["reset", "x.ipynb", "--all"]])
def test_without_pytorch_a_command_names_the_doctor(without_torch, arguments):
    done = without_torch("-m", "gapless.commands.cli", *arguments)
    assert done.returncode == 2 and "What to do: gapless doctor" in done.stderr and "Traceback" not in done.stderr


def test_without_pytorch_the_package_names_the_doctor(without_torch):
    for code in ("import gapless; gapless.Notebook", "from gapless import Notebook"):
        done = without_torch("-c", code)
        assert done.returncode == 1 and "What to do: gapless doctor" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_doctor_runs_without_pytorch(without_torch):
    done = without_torch("-m", "gapless.commands.cli", "doctor", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["ok"] is False and found["device"]["name"] is None
    assert any("torch is imported from" in problem["what"] and problem["needed"] for problem in found["problems"])


def test_the_demo_says_that_it_needs_the_repository(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 2 and "only the course's repository has" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
