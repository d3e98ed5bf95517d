"""The instructor's page: its ten commands, run as they stand by an instructor and a learner with a real exchange."""

import getpass
import os
import re
import shutil
import subprocess
import sys

import pytest

from . import ROOT, forked

PAGE = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
BY_LEARNER = ("fetch_assignment", "submit", "fetch_feedback")


def commands():
    block = next(b for b in re.findall(r"```sh\n(.*?)```", PAGE, re.S) if "nbgrader" in b)
    return [line.partition("#")[0].strip() for line in block.splitlines()]


@pytest.fixture
def world(tmp_path):
    """Folders for the class, the learner and the exchange; what nbgrader is told of the exchange is where it is."""
    for name in ("class", "learner", "exchange", "configuration"):
        (tmp_path / name).mkdir()
    (tmp_path / "exchange").chmod(0o777)
    (tmp_path / "configuration" / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.Exchange.root = {str(tmp_path / 'exchange')!r}\n")
    bin_folder = os.path.dirname(sys.executable)
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "configuration"), "GAPLESS_DEVICE": "vgpu:a10g",
                   "PATH": os.pathsep.join([bin_folder, os.environ["PATH"]])}

    def run(command, folder):
        program, *arguments = command.split()
        if program == "nbgrader":  # tests/grading/test_nbgrader.py starts the program itself
            done = forked.run("-m", program, *arguments, imports=forked.NBGRADER, cwd=folder, env=environment)
        else:
            done = subprocess.run([program, *arguments], cwd=folder, env=environment, text=True, capture_output=True)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    return tmp_path, run


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nbgrader", path=os.path.dirname(sys.executable)) is None, reason="needs nbgrader")
def test_ten_commands_lead_from_nothing_to_feedback(world):
    folder, run = world
    course, learner = folder / "class", folder / "learner"
    copy, *rest = commands()
    assert len(rest) == 9
    run(copy.replace("/srv/class", str(course)), ROOT)
    (course / "roster.csv").write_text(f"id,first_name,last_name,email\n{getpass.getuser()},Ada,Lovelace,ada@example.org\n")
    for command in [*rest, "nbgrader fetch_feedback 02_masked_loss --course gapless", "nbgrader export --to grades.csv"]:
        run(command, learner if command.split()[1] in BY_LEARNER else course)
    assert ",0.0,21.0," in (course / "grades.csv").read_text()
    page, = learner.rglob("feedback/*/02_masked_loss.html")
    assert "of 5 points" in page.read_text(encoding="utf-8")
