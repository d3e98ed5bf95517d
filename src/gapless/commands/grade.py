"""``gapless grade``: one notebook, without a gradebook."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
import tempfile
from pathlib import Path

from ..files import check_writable, temporary_folder


def add_parser(subparsers) -> argparse.ArgumentParser:
    """Add the ``grade`` command to an ``argparse`` parser's subparsers."""
    parser = subparsers.add_parser(
        "grade", help="grade a notebook",
        description="Grade the exercise cells of a notebook. Exit status: 0 when it could be graded, whatever the "
                    "score, else 2.")
    parser.add_argument("submission", metavar="SUBMISSION.ipynb", type=Path)
    parser.add_argument("--device", metavar="D", help="such as vgpu:a10g or cuda (default: the "
                        "variable GAPLESS_DEVICE, else cuda where there is one, else vgpu)")
    parser.add_argument("--seed", metavar="N", type=int, help="of the hidden inputs (default: drawn again each time)")
    parser.add_argument("--json", metavar="OUT", type=Path, help="write the result to this file too")
    parser.add_argument("--unconfined", action="store_true", help="grade without a sandbox where there is none: the "
                        "notebook's code can then read and change your files, and use the network")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace, lessons: str = "gapless.lessons") -> int:
    """Do what the parsed arguments say; the exit status. Progress and complaints go to stderr."""
    # Imported here, as PyTorch comes with them: other commands do not have to wait for it.
    from ..course.notebooks.submission import SubmissionError
    from ..grading.grade import Grader
    from ..grading.sandbox.confine import GradingError, require_confinement
    from ..grading.show import as_text
    from ..measure.device import UnknownDevice

    try:
        if args.json is not None:
            check_writable(args.json)
        if importlib.util.find_spec("psutil") is None:  # as in a package without its extras
            raise GradingError("grading needs psutil, which is missing: pip install 'gapless[grading]'. The notebook's "
                               "own checks need nothing more: gapless check")
        confinement = require_confinement(args.unconfined)
        with _temporary_files_in_one_place(), Grader(args.submission, args.device, args.seed, lessons=lessons,
                                                     confinement=confinement) as grader:
            result = grader.result(lambda text: print(text, file=sys.stderr, flush=True))
        print(as_text(result.to_json()))
        if args.json is not None:
            result.write(args.json)
    except (SubmissionError, UnknownDevice, GradingError, OSError) as error:
        print(f"gapless grade: {error}", file=sys.stderr)
        return 2
    return 0


@contextlib.contextmanager
def _temporary_files_in_one_place():
    """What grading keeps for a while lies in one folder: where this process is killed, the next clears it."""
    before = tempfile.tempdir
    with temporary_folder() as folder:
        tempfile.tempdir = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before
