"""The first cell of a notebook on Colab: what it installs, what it leaves alone, what it says. tests/test_wheel.py runs it for
real."""

import importlib.util
import subprocess
from importlib import metadata

import pytest

from gapless.grading.notebooks.install_cell import install_course

TRIED = ">=2.11,<2.16"


@pytest.fixture
def pip(monkeypatch, tmp_path):
    """What pip was asked to install, in place of installing it. ``pip.lacks``: modules that seem to be missing until they are
    installed; ``pip.fails``: what pip says when it fails."""
    monkeypatch.chdir(tmp_path)
    find = importlib.util.find_spec

    def run(command, **options):
        assert command[1:4] == ["-m", "pip", "install"]
        run.asked.append([each for each in command[4:] if each not in ("--quiet", "--disable-pip-version-check", "--retries", "2")])
        run.lacks -= {name for name in run.lacks if not run.useless and any(name in each for each in command)}
        return subprocess.CompletedProcess(command, 1 if run.fails else 0, "", run.fails)

    run.asked, run.lacks, run.fails, run.useless = [], set(), "", False
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in run.lacks else find(name))
    return run


def install(needed=(), tried=TRIED, python=(3, 11)):
    install_course("gapless @ https://a.b/c.zip", dict(needed), tried, python)


def test_nothing_is_installed_where_all_is_there(pip, capsys):
    install({"matplotlib": "matplotlib>=3.8"})
    said = capsys.readouterr().out
    assert pip.asked == [] and said.startswith("Ready: gapless ") and "simulated" in said and said.count("\n") == 1


def test_the_course_comes_alone_and_what_is_missing_leaves_pytorch_as_it_is(pip, capsys):
    pip.lacks = {"gapless", "torchmetrics"}
    install({"matplotlib": "matplotlib>=3.8", "torchmetrics": "torchmetrics>=1.9,<2"})
    there = [f"{name}=={metadata.version(name)}" for name in ("torch", "torchvision", "numpy")]
    assert pip.asked == [["--no-deps", "gapless @ https://a.b/c.zip"], ["torchmetrics>=1.9,<2", *there]]
    assert "Installing torchmetrics>=1.9,<2 …" in capsys.readouterr().out


def test_a_wheel_beside_the_notebook_is_taken_first(pip, tmp_path):
    pip.lacks = {"gapless"}
    for version in ("0.1.0", "0.2.0"):
        (tmp_path / f"gapless-{version}-py3-none-any.whl").write_bytes(b"")
    install()
    assert pip.asked == [["--no-deps", "gapless-0.2.0-py3-none-any.whl"]]


def test_a_folder_of_the_name_is_no_course(pip, monkeypatch):
    find, hidden = importlib.util.find_spec, importlib.util.spec_from_loader("gapless", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: hidden if name == "gapless" and not pip.asked else find(name))
    install()
    assert len(pip.asked) == 1


@pytest.mark.parametrize("lacks, fails, python, says", [
    ({"gapless"}, "Failed to resolve 'a.b'", (3, 11), "Failed to resolve 'a.b'\n\nThe course could not be installed; pip says why"),
    ({"torch"}, "", (3, 11), "PyTorch is not installed here"),
    (set(), "", (99, 1), "needs Python 99.1 or newer, and this is 3."),
])
def test_what_cannot_be_is_told_with_what_to_do(pip, lacks, fails, python, says):
    pip.lacks, pip.fails = lacks, fails
    with pytest.raises(RuntimeError) as error:
        install(python=python)
    assert says in str(error.value) and any(each in str(error.value) for each in ("again", "Install it first", "Runtime version"))


def test_what_is_installed_where_this_kernel_does_not_look_asks_for_a_restart(pip):
    pip.lacks, pip.useless = {"gapless"}, True
    with pytest.raises(RuntimeError, match="Restart the session"):
        install()


def test_another_pytorch_is_noted(pip, capsys):
    install(tried=">=99")
    assert "Note: the course was tried with PyTorch >=99, and this is" in capsys.readouterr().out
