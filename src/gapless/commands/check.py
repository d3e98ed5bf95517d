"""``gapless check``: the checks of a lesson's notebook, in a terminal."""

from __future__ import annotations

import argparse
import json
import math
import sys

EXIT_PASSED, EXIT_FAILED, EXIT_UNUSABLE = 0, 1, 2


def add_parser(commands) -> None:
    """Add ``check`` to the command line."""
    parser = commands.add_parser(
        "check", help="check the exercises of a notebook, as its own checks do",
        description="Run a notebook's exercise cells with the checks that the notebook itself calls. This runs the code in "
                    "the notebook, without a fence: use it for your own. Exit status: 0 all passed, 1 some failed, 2 it "
                    "could not be checked.")
    parser.add_argument("notebook", metavar="NOTEBOOK", help="the saved notebook (.ipynb), or the folder it is in")
    parser.add_argument("exercises", metavar="EXERCISE", nargs="*", help="only these (default: all)")
    parser.add_argument("--device", metavar="D",
                        help="cuda, vgpu, vgpu:a100, … (default: GAPLESS_DEVICE, else the best there is)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check, print, and return the exit status."""
    from ..course.notebooks.submission import SubmissionError
    from ..learner.notebook import Notebook
    from ..measure.device import UnknownDevice
    from .find import chosen, find_notebook, open_lesson

    try:
        path = find_notebook(arguments.notebook)
        lesson, submission = open_lesson(path)
        names = chosen(lesson, arguments.exercises)
        notebook = Notebook(lesson.id, device=arguments.device)
        notebook.lesson = lesson
    except (SubmissionError, UnknownDevice, OSError) as error:
        print(f"gapless check: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    if not arguments.json:
        print(f"{notebook}, from {path}\n", flush=True)
    results, missing = [], []
    for name in names:
        if name not in submission.cells:
            missing.append(name)
            continue
        if not arguments.json and sys.stderr.isatty():
            print(f"{name} …", end="\r", file=sys.stderr, flush=True)  # the result will be written over it
        try:
            result = notebook.check_source(name, submission.cells[name])
        except KeyboardInterrupt:
            print(f"stopped while it checked {name}: does every loop in its cell end?", file=sys.stderr)
            return 130
        results.append(result)
        if not arguments.json:
            print(f"{result}\n", flush=True)
    passed = not missing and all(result.passed for result in results)
    if arguments.json:
        print(json.dumps({"lesson": lesson.id, "device": repr(notebook), "missing": missing, "passed": passed, "exercises": [
            {"name": result.exercise, "earned": result.earned, "points": result.points, "passed": result.passed,
             "checks": [verdict.to_json() for verdict in result.verdicts], "remark": result.remark} for result in results]},
            indent=1, ensure_ascii=False))
        return EXIT_PASSED if passed else EXIT_FAILED
    for name in missing:
        print(f"{name}: 0 of {lesson.exercises[name].max_points:g} points\n  no code cell begins with the line '# exercise: "
              f"{name}': put it back, or restore the cell as you got it: gapless reset {path} {name}\n")
    for note in submission.notes:
        if "more than once" in note or "cell was left out" in note or "make it a code cell" in note:
            print(f"Note: {note}")
    earned = math.fsum(result.earned for result in results)
    print(f"In all {earned:g} of {math.fsum(lesson.exercises[name].max_points for name in names):g} points.")
    return EXIT_PASSED if passed else EXIT_FAILED
