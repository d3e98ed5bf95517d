"""A real nbgrader course in a folder: the toy lesson, the repository's own configuration."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from .. import ROOT
from .toy import PACKAGE, SLOW_DOUBLE, SLOW_SQUARE, code, markdown, notebook, write

from gapless.grading.confine import UNCONFINED
LESSON = "77_toy"
CHECKS = {"double": 'check("double")', "square": 'check("square")'}


def _nbgrader(**given):
    return {"nbgrader": {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False, **given}}


def source_notebook():
    """The instructor's notebook, solutions included."""
    def exercise(name, slow, fast):
        return code(f"{slow}\n### BEGIN SOLUTION\n{fast}\n### END SOLUTION\n", **_nbgrader(grade_id=name, solution=True))

    def check(name):
        return code(CHECKS[name], **_nbgrader(grade_id=f"check_{name}", grade=True, locked=True, points=3))

    return notebook(
        markdown("# Toy"),
        code("import torch", **_nbgrader(grade_id="setup", locked=True)),
        exercise("double", SLOW_DOUBLE, "def double(x):\n    return 2 * x"), markdown("Now check."), check("double"),
        exercise("square", SLOW_SQUARE, "def square(x):\n    return x * x"), check("square"),
        kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"})


def test_notebook():
    """The toy lesson's test notebook: the thin kind, as in autograde/."""
    cells = [code('submission = ""\ndevice = None\nseed = None\nresults = ""', tags=["parameters"]),
             code(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
                  "from gapless.grading.grade import Grader\nfrom gapless.grading.show import show\n"
                  f"grader = Grader(submission, device, seed, lesson={LESSON!r}, lessons={PACKAGE!r})")]
    cells += [code(f"show(grader.grade_exercise({name!r}))", gapless={"exercise": name}) for name in CHECKS]
    cells += [code("with grader:\n    grader.write(results)")]
    return notebook(*cells, kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"})


test_notebook.__test__ = False


class Course:
    """A course in ``root``: run nbgrader in it and look at what it leaves."""

    def __init__(self, root: Path):
        self.root = root
        shutil.copy(ROOT / "nbgrader_config.py", root)
        write(source_notebook(), root / "solutions" / LESSON / f"{LESSON}.ipynb")
        write(test_notebook(), root / "autograde" / f"{LESSON}.ipynb")

    def nbgrader(self, *arguments, check=True, **variables):
        """Run it by its full path, in no activated environment."""
        kept = {name: os.environ[name] for name in ("PYTHONPATH", UNCONFINED) if name in os.environ}
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.root), "GAPLESS_DEVICE": "vgpu", **kept, **variables}
        program = Path(sys.executable).parent / "nbgrader"
        done = subprocess.run([program, *arguments], cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return done

    def submit(self, student, content):
        return write(content, self.root / "submitted" / student / LESSON / f"{LESSON}.ipynb")

    def released(self):
        return self.root / "notebooks" / LESSON / f"{LESSON}.ipynb"

    def autograded(self, student):
        return self.root / "autograded" / student / LESSON / f"{LESSON}.ipynb"

    def scores(self):
        """Student → {grade cell: (auto score, needs manual grade)}."""
        query = """select s.student_id, c.name, g.auto_score, g.needs_manual_grade from grade g
                   join base_cell c on c.id = g.cell_id join submitted_notebook n on n.id = g.notebook_id
                   join submitted_assignment s on s.id = n.assignment_id"""
        found = {}
        with sqlite3.connect(self.root / "gradebook.db") as db:
            for student, cell, score, manual in db.execute(query):
                found.setdefault(student, {})[cell] = (score, bool(manual))
        return found
