"""``gapless progress``: the points so far, in a terminal."""

from __future__ import annotations

import json


def add_parser(commands) -> None:
    """Add ``progress`` to the command line."""
    parser = commands.add_parser("progress", help="show your points so far",
                                 description="Show the best points so far, as recorded on this computer by the checks.")
    parser.add_argument("lesson", metavar="LESSON", nargs="?", help="only this lesson, such as 02_masked_loss")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Print the table. Raises UnknownLesson."""
    from ..learner.progress import progress
    from ..learner.progress_file import progress_path

    found = progress(arguments.lesson)
    if arguments.json:
        print(json.dumps(found.to_json(), indent=1, ensure_ascii=False))
        return 0
    print(found)
    if not any(each.record.attempts for lesson in found.lessons for each in lesson.exercises):
        print(f"\nNothing is recorded yet: the checks in the notebooks and `gapless check` write to {progress_path()}.")
    return 0
