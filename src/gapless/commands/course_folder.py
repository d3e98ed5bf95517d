"""What the commands on a course of nbgrader's share: which folder it is, and which of its lessons."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

CONFIG = "nbgrader_config.py"


class NoCourse(ValueError):
    """The folder is none of a course that can be used; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``COURSE`` (``course``: Path) and ``--lesson`` (``lesson``: list of str)."""
    parser.add_argument("course", metavar="COURSE", type=Path, help=f"the folder with {CONFIG}")
    parser.add_argument("--lesson", metavar="ID", action="append", default=[],
                        help="only this one (may be given several times)")


@contextlib.contextmanager
def opened(folder: Path) -> Iterator:
    """nbgrader's CourseDirectory of the course in ``folder``, which is the current one meanwhile, as the configuration's
    paths need. Raises NoCourse."""
    if not (folder / CONFIG).is_file():
        raise NoCourse(f"there is no {CONFIG} in {folder}: name the course's folder, where nbgrader is run")
    from nbgrader.apps import AutogradeApp

    with contextlib.chdir(folder):
        app = AutogradeApp()
        app.initialize(["--log-level=WARN"])
        yield app.coursedir
