"""From ``solutions/`` to ``notebooks/``: what ``make notebooks`` runs, and the test that the two agree.

nbgrader does it, in a folder of its own, so that no gradebook of a real course is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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
    with tempfile.TemporaryDirectory(prefix="gapless-release-") as folder:
        course = Path(folder)
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


if __name__ == "__main__":
    for path in generate(Path.cwd(), Path.cwd() / "notebooks"):
        print(path.relative_to(Path.cwd()))
