"""What is generated: ``notebooks/`` from ``solutions/``, ``colab/`` from those, and a test notebook for each lesson in
``autograde/``.

``make notebooks`` runs this, and a test that the repository holds what it writes. The learners' notebooks are
nbgrader's work, in a folder of its own, so that no gradebook of a real course is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

from ...files import temporary_folder
from ...lessons import LESSONS, Lesson
from . import colab
from .testnotebook import FOLDER

CONFIG = "nbgrader_config.py"


class ReleaseError(RuntimeError):
    """nbgrader could not make the release; the message is its own."""


def run_nbgrader(course: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run nbgrader in the folder ``course``; returns what it printed. Raises ReleaseError if it failed."""
    done = subprocess.run([sys.executable, "-m", "nbgrader", *arguments], cwd=course, text=True,
                          env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise ReleaseError(f"nbgrader {' '.join(arguments)} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def make_course(root: Path, course: Path) -> None:
    """Copy what a course needs from the repository ``root`` into the folder ``course``."""
    for name in ("solutions", "autograde"):
        shutil.copytree(root / name, course / name)
    shutil.copy(root / CONFIG, course / CONFIG)


def generate(root: Path, into: Path) -> list[Path]:
    """Generate the learners' notebooks of all lessons in ``root/solutions`` into the folder ``into``; their paths."""
    written = []
    with temporary_folder("gapless-release-") as course:
        make_course(root, course)
        for lesson in sorted(path.name for path in (root / "solutions").iterdir() if path.is_dir()):
            run_nbgrader(course, "generate_assignment", lesson)
            target = into / lesson
            target.mkdir(parents=True, exist_ok=True)
            for notebook in sorted((course / "notebooks" / lesson).glob("*.ipynb")):
                temporary = target / f"{notebook.name}.tmp"
                shutil.copy(notebook, temporary)
                os.replace(temporary, target / notebook.name)
                written.append(target / notebook.name)
    return written


# -- test notebooks -------------------------------------------------------------------------------

_ABOUT = """# Grading of lesson {number}, *{title}*

papermill runs this notebook on one submission; see the README beside it. Each exercise cell of the submission runs
in a process of its own, and what it leaves behind is judged here. A check that fails is recorded, and the next exercise
follows."""
_PARAMETERS = """submission = ""  # path of the learner's notebook
device = None  # such as "vgpu:a10g" or "cuda"; None: the course's device
seed = None  # of the hidden inputs; None: drawn again
results = "results.json"  # where the results go"""
_GRADER = """from gapless.grading.grade import Grader
from gapless.grading.show import show

grader = Grader(submission, device, seed, lesson="{id}")
print("device:", grader.device)
print("confinement:", grader.confinement.description)
print(*grader.submission.notes, sep="\\n")"""
_RESULT = """with grader:
    result = grader.write(results)
print(f"{result.score:g} of {result.max_score:g} points")"""


def make_test_notebook(lesson: Lesson) -> str:
    """The text of the notebook that papermill runs to grade ``lesson``."""
    cells = []

    def add(make, source: str, **metadata) -> None:
        cells.append(make(source, id=f"cell-{len(cells)}", metadata=metadata))

    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    add(text, _ABOUT.format(number=lesson.id[:2], title=lesson.title))
    add(code, _PARAMETERS, tags=["parameters"])
    add(code, _GRADER.format(id=lesson.id))
    for number, name in enumerate(lesson.exercises, start=1):
        add(text, f"## {number}. `{name}`")
        add(code, f'show(grader.grade_exercise("{name}"))', gapless={"exercise": name})
    add(text, "## Result")
    add(code, _RESULT)
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})) + "\n"


def generate_test_notebooks(into: Path) -> list[Path]:
    """Write the test notebook of every lesson into the folder ``into``; their paths."""
    written = []
    for lesson in LESSONS.values():
        target = into / f"{lesson.id}.ipynb"
        temporary = into / f"{lesson.id}.ipynb.tmp"
        temporary.write_text(make_test_notebook(lesson), encoding="utf-8")
        os.replace(temporary, target)
        written.append(target)
    return written


if __name__ == "__main__":
    here = Path.cwd()
    changed = colab.write_addresses(here)
    for path in [*changed, *generate_test_notebooks(here / FOLDER), *generate(here, here / "notebooks"),
                 *colab.generate_for_colab(here, here / colab.FOLDER)]:
        print(path.relative_to(here))
