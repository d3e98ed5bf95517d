"""The author's page: its commands and its code, run as they stand in a copy of the repository without the other lessons'
notebooks."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.stage import LocalStage
from gapless.measure.device import device as find_device

from . import ROOT

PAGE = (ROOT / "docs" / "authors.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S) for line in block.splitlines()]
MEASURE, ASK = re.findall(r"```python\n(.*?)```", PAGE, re.S)
RECIPE, = re.findall(r"^notebooks:.*\n\t(.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a command in the copy: what it printed."""
    root = tmp_path_factory.mktemp("course") / "repository"
    for folder in ("src/gapless", "tests/lessons"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("solutions", "notebooks", "autograde"):
        (root / folder).mkdir()
    for file in ("pyproject.toml", "nbgrader_config.py", *(path.relative_to(ROOT) for path in (ROOT / "tests").glob("*.py"))):
        shutil.copy(ROOT / file, root / file)
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "GAPLESS_DEVICE": "vgpu:a10g",
                   "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])}

    def run(command):
        done = subprocess.run(RECIPE if command == "make notebooks" else command, shell=True, cwd=root, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}"
        return done.stdout

    run.root = root
    return run


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nbgrader", path=os.path.dirname(sys.executable)) is None, reason="needs nbgrader")
def test_the_page_leads_from_nothing_to_green_tests(run):
    new, notebooks, check, grade_solution, grade_released, tests = LINES
    assert "solutions/20_my_lesson/20_my_lesson.ipynb" in run(new)
    assert "autograde/20_my_lesson.ipynb" in run(notebooks)
    assert "In all 5 of 5 points." in run(check)
    assert "simulated: 5 of 5 points" in run(grade_solution)
    assert "simulated: 0 of 5 points" in run(grade_released)
    tested = run(tests)
    assert int(re.search(r"(\d+) passed", tested)[1]) > 10 and "skipped" not in tested
    released = (run.root / "notebooks/20_my_lesson/20_my_lesson.ipynb").read_text(encoding="utf-8")
    assert "# exercise: scale_down" in released and "clamp(max=1.0)" not in released

    (run.root / "measure.py").write_text(MEASURE, encoding="utf-8")
    measured = run("python measure.py").splitlines()
    for card, line in zip(("t4", "a10g", "h200"), measured, strict=True):
        full_ms, trial_ms = map(float, re.findall(r"([\d.]+) ms", line))
        assert line.startswith(f"vgpu:{card}") and full_ms / 2 < trial_ms < 2 * full_ms, line


def test_the_exercise_on_the_page_that_is_asked_in_its_own_way_works():
    names = {}
    exec(compile(ASK, "docs/authors.md", "exec"), names)
    exercise, device = names["SUMMARY"], find_device("vgpu:a10g")

    def values(function):
        plan = exercise.plan(3)
        return judge(exercise, plan, gather(exercise, LocalStage(function, device, exercise.asked.ask), plan, device))[0]

    assert values(exercise.slow).outcome == "pass"
    assert "That is the sum." in values(lambda losses, log: float(sum(losses))).message
