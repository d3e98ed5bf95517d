"""The examples of docs/audit.md for pull requests: their commands, in a small repository of git."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from .. import ROOT
from .scripts import FREE, WAITING

EXAMPLES = [yaml.safe_load(each) for each in re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs" / "audit.md").read_text(encoding="utf-8"), re.M | re.S)]


@pytest.fixture
def shell(tmp_path):
    """``shell(text, **variables)`` in a repository whose only commit is a script without waits."""
    command = tmp_path / "bin" / "gapless"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gapless_command "$@"\n')
    command.chmod(0o755)
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "train.py").write_text(FREE)
    (tmp_path / "runner").mkdir()
    environment = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path / "runner"),
                   "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "GIT_CONFIG_GLOBAL": os.devnull}

    def run(text, **variables):
        return subprocess.run(["bash", "-e", "-c", text], cwd=repository, env={**environment, **variables}, capture_output=True, text=True)

    done = run("git init -q && git add . && git -c user.name=A -c user.email=a@b.c commit -qm first")
    assert done.returncode == 0, done.stderr
    run.folder = tmp_path
    return run


@pytest.mark.slow
@pytest.mark.parametrize("source, status, said", [(WAITING, 1, "1 line waits that did not before"), ("# edited\n" + FREE, 0, "No line waits that did not")], ids=["new wait", "none"])
def test_the_workflow(shell, source, status, said):
    step = next(each for each in EXAMPLES[0]["jobs"]["audit"]["steps"] if each.get("name") == "Audit")
    assert "pull_request.base.sha" in step["env"]["BASE"]
    (shell.folder / "repository" / "train.py").write_text(source)
    done = shell(step["run"], GAPLESS_DEVICE=step["env"]["GAPLESS_DEVICE"], BASE="HEAD")
    assert done.returncode == status, done.stderr
    assert said in (shell.folder / "runner" / "audit.md").read_text()


@pytest.mark.slow
def test_the_hook(shell):
    hook, = EXAMPLES[1]["repos"][0]["hooks"]
    accepted = re.sub(r"--against \S+ --fail-on-waits --out - --format md", "--out audit.json", hook["entry"])
    assert shell(accepted).returncode == 0
    assert (done := shell(hook["entry"])).returncode == 0, done.stderr
    (shell.folder / "repository" / "train.py").write_text(WAITING)
    done = shell(hook["entry"])
    assert done.returncode == 1 and "train.py:16: aten::item" in done.stderr and done.stdout.startswith("# Against the audit of `train.py` before")
