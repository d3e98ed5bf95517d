"""``gapless class-report``: a class on one page, and as CSV."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path

from .course_folder import add_arguments, opened


def add_parser(subparsers) -> argparse.ArgumentParser:
    """Add the ``class-report`` command to an ``argparse`` parser's subparsers."""
    parser = subparsers.add_parser(
        "class-report",
        help="a class on one page, for its instructor",
        description="Write one HTML page on a course of nbgrader's, and CSV files beside it: points by student and by "
        "exercise, the most common problems, what is missing or failed, how each was graded, and answers that are "
        "nearly the same. Only you can read the files. Exit status: 0 when they are written, 2 when not.",
    )
    add_arguments(parser)
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("class-report.html"), help="default: %(default)s")
    parser.add_argument("--no-compare", action="store_true", help="do not look for answers that are nearly the same")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the parsed arguments say; the exit status."""
    from ..files import check_writable, write_private

    if args.out.suffix.lower() not in (".html", ".htm"):
        return _unusable(f"--out {args.out}: name a .html file; the CSV files get names like it")
    out = args.out.absolute()
    try:
        check_writable(out)
        with opened(args.course) as course:
            from ..grading.report.facts import class_facts
            from ..grading.report.page import page
            from ..grading.report.tables import tables

            facts = class_facts(course, args.lesson, not args.no_compare)
            title = course.course_id or Path(course.root).name
        files = {out: page(facts, title, datetime.now(), not args.no_compare).encode()}
        files |= {out.with_name(f"{out.stem}-{name}.csv"): content for name, content in tables(facts).items()}
        for path, content in files.items():
            write_private(path, content)
    except (OSError, ValueError) as error:
        return _unusable(str(error))
    print("\n".join(map(str, files)))
    return 0


def _unusable(why: str) -> int:
    print(f"gapless class-report: {why}", file=sys.stderr)
    return 2
