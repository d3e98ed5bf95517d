"""``gapless grades``: the gradebook for Canvas or Moodle."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .course_folder import add_arguments, opened


def add_parser(subparsers) -> argparse.ArgumentParser:
    """Add the ``grades`` command to an ``argparse`` parser's subparsers."""
    parser = subparsers.add_parser(
        "grades", help="a class's scores as Canvas or Moodle import them",
        description="Write the scores of a course of nbgrader's, late penalties taken off, as CSV for a learning platform. "
                    "A missing score is an empty field. Students who are on one side only are listed on stderr. Exit "
                    "status: 0 when it is written, 2 when not.")
    add_arguments(parser)
    parser.add_argument("--for", dest="form", choices=("canvas", "moodle"), required=True)
    parser.add_argument("--roster", metavar="FILE", type=Path, help="a CSV that the platform exported, whose lines and "
                        "columns are kept: Canvas's gradebook, or Moodle's offline grading worksheet of one assignment")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True)
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the parsed arguments say; the exit status."""
    from ..files import check_writable, write_private

    out = args.out.absolute()
    try:
        check_writable(out)
        with opened(args.course) as course:
            from ..grading.report.facts import class_facts
            from ..grading.report.lms import grades, read_roster

            facts = class_facts(course, args.lesson, compare=False)
        found = grades(facts, args.form, read_roster(args.roster) if args.roster else None)
        write_private(out, found.content)
    except (OSError, ValueError) as error:
        print(f"gapless grades: {error}", file=sys.stderr)
        return 2
    for remark in found.remarks:
        print(f"  {remark}", file=sys.stderr)
    print(out)
    return 0
