"""``gapless grade-class``: all that a class has handed in, on every core or on a cluster."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

CONFIG = "nbgrader_config.py"


def add_parser(subparsers) -> argparse.ArgumentParser:
    """Add the ``grade-class`` command to an ``argparse`` parser's subparsers."""
    parser = subparsers.add_parser(
        "grade-class", help="grade all that a class has handed in",
        description="Grade what is not graded yet in a course of nbgrader's, several submissions at once. It can be stopped "
                    "and started again at any moment. Exit status: 0 when all is graded, 1 when something could not be, "
                    "with the reasons in results/LESSON.csv, 2 when nothing could be done.")
    parser.add_argument("course", metavar="COURSE", type=Path, help=f"the folder with {CONFIG}")
    parser.add_argument("--lesson", metavar="ID", action="append", help="only this one (may be given several times)")
    parser.add_argument("--workers", metavar="N", type=int, help="how many submissions at once on this machine (default: "
                        "one a processor, and one more, as far as there is memory)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="grade on a Dask cluster, such as tcp://host:8786")
    parser.add_argument("--force", action="store_true", help="grade again what is graded")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the parsed arguments say; the exit status. Progress and complaints go to stderr."""
    if not (args.course / CONFIG).is_file():
        return _unusable(f"there is no {CONFIG} in {args.course}: name the course's folder, where nbgrader is run")
    if args.workers is not None and args.workers < 1:
        return _unusable(f"--workers {args.workers}: at least one is needed")
    os.chdir(args.course)
    from nbgrader.apps import AutogradeApp

    options = ["--log-level=WARN", "--Autograde.progress=True"]
    options += ["--Autograde.force=True"] if args.force else []
    options += [f"--Autograde.workers={args.workers}"] if args.workers else []
    options += [f"--Autograde.scheduler={args.scheduler}"] if args.scheduler else []
    from sqlalchemy.exc import DBAPIError

    from ..grading.confine import GradingError
    from ..grading.gradebook import in_words

    try:
        lessons = args.lesson or _handed_in()
    except (DBAPIError, GradingError) as error:
        words = in_words(error) if isinstance(error, DBAPIError) else error
        return _unusable(f"the gradebook cannot be used: {words}")
    if not lessons:
        return _unusable("nothing was handed in: submitted/STUDENT/LESSON/LESSON.ipynb is where it is looked for")
    status = 0
    for lesson in lessons:
        app = AutogradeApp()
        app.initialize([lesson, *options])
        try:
            app.start()
        except SystemExit as end:
            status = max(status, int(bool(end.code)))
    return status


def _handed_in() -> list[str]:
    """The lessons of which something was handed in, in order."""
    from nbgrader.apps import AutogradeApp

    from ..grading.gradebook import opened
    from ..grading.standing import Assignment

    app = AutogradeApp()
    app.initialize(["--log-level=WARN"])
    with opened(app.coursedir.db_url, app.coursedir.course_id) as gradebook:
        known = [assignment.name for assignment in gradebook.assignments]
    return [lesson for lesson in sorted(known) if Assignment(app.coursedir, lesson, []).students()]


def _unusable(why: str) -> int:
    print(f"gapless grade-class: {why}", file=sys.stderr)
    return 2
