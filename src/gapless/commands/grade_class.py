"""``gapless grade-class``: all that a class has handed in, on every core or on a cluster."""

from __future__ import annotations

import argparse
import sys

from .course_folder import NoCourse, add_arguments, opened


def add_parser(subparsers) -> argparse.ArgumentParser:
    """Add the ``grade-class`` command to an ``argparse`` parser's subparsers."""
    parser = subparsers.add_parser(
        "grade-class", help="grade all that a class has handed in",
        description="Grade what is not graded yet in a course of nbgrader's, several submissions at once. It can be stopped "
                    "and started again at any moment. Exit status: 0 when all is graded, 1 when something could not be, "
                    "with the reasons in results/LESSON.csv, 2 when nothing could be done.")
    add_arguments(parser)
    parser.add_argument("--workers", metavar="N", type=int, help="how many submissions at once on this machine "
                        "(default: one a processor, and one more, if the memory allows it)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="grade on a Dask cluster, such as tcp://host:8786")
    parser.add_argument("--force", action="store_true", help="grade again what is graded")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the parsed arguments say; the exit status. Progress and complaints go to stderr."""
    if args.workers is not None and args.workers < 1:
        return _unusable(f"--workers {args.workers}: at least one is needed")
    options = ["--log-level=WARN", "--Autograde.progress=True"]
    options += ["--Autograde.force=True"] if args.force else []
    options += [f"--Autograde.workers={args.workers}"] if args.workers else []
    options += [f"--Autograde.scheduler={args.scheduler}"] if args.scheduler else []
    try:
        with opened(args.course) as course:
            lessons = args.lesson or _handed_in(course)
            if not lessons:
                return _unusable("nothing was handed in: submissions belong into submitted/STUDENT/LESSON/LESSON.ipynb")
            return max([_grade(lesson, options) for lesson in lessons])
    except NoCourse as error:
        return _unusable(str(error))


def _grade(lesson: str, options: list[str]) -> int:
    """0 when all is graded, else 1."""
    from nbgrader.apps import AutogradeApp

    app = AutogradeApp()
    app.initialize([lesson, *options])
    try:
        app.start()
    except SystemExit as end:
        return int(bool(end.code))
    return 0


def _handed_in(course) -> list[str]:
    """The lessons of which something was handed in, in order. Raises NoCourse where the gradebook cannot be used."""
    from sqlalchemy.exc import DBAPIError

    from ..grading import gradebook
    from ..grading.sandbox.confine import GradingError
    from ..grading.standing import Assignment

    try:
        with gradebook.opened(course.db_url, course.course_id) as there:
            known = [assignment.name for assignment in there.assignments]
    except (DBAPIError, GradingError) as error:
        words = gradebook.in_words(error) if isinstance(error, DBAPIError) else error
        raise NoCourse(f"the gradebook cannot be used: {words}") from None
    return [lesson for lesson in sorted(known) if Assignment(course, lesson, []).students()]


def _unusable(why: str) -> int:
    print(f"gapless grade-class: {why}", file=sys.stderr)
    return 2
