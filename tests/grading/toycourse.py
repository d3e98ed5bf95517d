"""A real nbgrader course in a folder: the toy lesson, the repository's own configuration."""

import csv
import json
import os
import shutil
import sqlite3
import sys
from pathlib import Path

from gapless.grading.sandbox.confine import UNCONFINED

from .. import ROOT, forked
from .toy import PACKAGE, SLOW_DOUBLE, SLOW_SQUARE, code, markdown, notebook, write

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

_QUICK = """
import json
cells = ["".join(cell["source"]) for cell in json.load(open(submission))["cells"]]
checks = []
for name, good in (("double", "2 * x\\n"), ("square", "x * x\\n")):
    earned = max((3 if good in cell else 1 for cell in cells if f"# exercise: {name}" in cell), default=0)
    checks.append({"id": f"{name}.text", "exercise": name, "points": 3, "earned": earned, "outcome": "pass" if earned == 3 else "fail",
                   "message": "looked at"})
json.dump({"lesson": "77_toy", "device": "none", "simulated": True, "score": 0, "max_score": 6, "confinement": "none",
           "seed": seed, "notes": [], "checks": checks}, open(results, "w"))
"""


def quick_test_notebook(before=""):
    """A test notebook that looks at the cells' text alone, after it has run ``before``: for tests of what nbgrader makes of it."""
    return notebook(code('submission = ""\ndevice = None\nseed = None\nresults = ""', tags=["parameters"]), before + _QUICK,
                    kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"})


class Course:
    """A course in ``root``: run nbgrader in it and look at what it leaves. ``quick``: graded by a look at the text. ``url``: of
    the gradebook, where it is no file."""

    def __init__(self, root: Path, quick=False, like: Path | None = None, url: str | None = None):
        self.root = root
        root.mkdir(exist_ok=True)
        if like is not None:  # a course that is made already: making a gradebook takes nbgrader seconds
            shutil.copytree(like, root, dirs_exist_ok=True)
        shutil.copy(ROOT / "nbgrader_config.py", root)
        if url is not None:
            with open(root / "nbgrader_config.py", "a") as config:
                config.write(f"\nc.CourseDirectory.db_url = {url!r}\n")
        write(source_notebook(), root / "solutions" / LESSON / f"{LESSON}.ipynb")
        self.grade_by(quick_test_notebook() if quick else test_notebook())

    def grade_by(self, content):
        write(content, self.root / "autograde" / f"{LESSON}.ipynb")

    def command(self, *arguments):
        """What to give to subprocess: nbgrader by its full path, in no activated environment."""
        (self.root / "tmp").mkdir(exist_ok=True)
        return {"args": [Path(sys.executable).parent / "nbgrader", *arguments], "cwd": self.root, "text": True,
                "env": {"PATH": "/usr/bin:/bin", "HOME": str(self.root), "GAPLESS_DEVICE": "vgpu", "TMPDIR": str(self.root / "tmp"),
                        **{name: os.environ[name] for name in ("PYTHONPATH", UNCONFINED) if name in os.environ}}}

    def nbgrader(self, *arguments, check=True, **variables):
        command = self.command(*arguments)
        done = forked.run("-m", "nbgrader", *arguments, imports=forked.NBGRADER, cwd=command["cwd"], env={**command["env"], **variables})
        if check and done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return done

    def quickly(self, program, *arguments):
        """Run a program that uses :mod:`.quick`, with nothing else imported; what it prints as JSON in the end."""
        command = self.command()
        prelude = f"import json, os, sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.grading.quick import *\nquicken()\n"
        done = forked.run("-c", prelude + program, *arguments, imports=forked.NBGRADER, cwd=command["cwd"], env=command["env"])
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def submit(self, student, content, name=f"{LESSON}.ipynb"):
        return write(content, self.root / "submitted" / student / LESSON / name)

    def page(self, student, name=LESSON):
        return (self.root / "feedback" / student / LESSON / f"{name}.html").read_text(encoding="utf-8")

    def summary(self):
        """Student → the line of results/77_toy.csv."""
        with open(self.root / "results" / f"{LESSON}.csv", encoding="utf-8") as file:
            return {row["student"]: row for row in csv.DictReader(file)}

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
