"""From what a learner types to a lesson's notebook: shared by the commands that take one."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from ..course.notebooks.submission import Submission, SubmissionError, read_submission
from ..lessons import LESSONS, Lesson, find_lesson


def find_notebook(path: str | os.PathLike) -> Path:
    """The notebook file that is meant: ``path`` itself, or the only one in the folder. Raises SubmissionError."""
    path = Path(path)
    try:
        path.stat()
    except FileNotFoundError:
        raise SubmissionError(f"there is no {path}{_guess(path)}") from None
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}") from None
    if path.is_dir():
        inside = _inside(path, "*.ipynb")
        if len(inside) == 1:
            return inside[0]
        inside = inside or _inside(path, "*/*.ipynb")
        names = ", ".join(str(each) for each in inside[:8])
        raise SubmissionError(f"{path} is a folder: name the notebook (.ipynb) in it"
                              + (f": {names}" if inside else "; there is none"))
    return path


def _guess(path: Path) -> str:
    """What may have been meant, as a half-sentence."""
    by_name = {}
    # Of notebooks with the same name the later place counts.
    for place, pattern in ((path.parent, "*/*.ipynb"), (Path("."), "*.ipynb"), (path.parent, "*.ipynb"),
                           (Path("notebooks"), "*/*.ipynb")):
        by_name |= {each.stem: each for each in _inside(place, pattern)}
    close = difflib.get_close_matches(path.stem, by_name, 1, 0.5)
    return f"; did you mean {by_name[close[0]]}?" if close else f" (you are in {Path.cwd()})"


def _inside(folder: Path, pattern: str) -> list[Path]:
    return sorted(each for each in folder.glob(pattern)
                  if not any(part.startswith(".") for part in each.relative_to(folder).parts))


def known_exercises() -> dict[str, list[str]]:
    """Lesson id → the names of its exercises, of every lesson."""
    return {lesson_id: list(find_lesson(lesson_id).exercises) for lesson_id in LESSONS}


def open_lesson(path: Path) -> tuple[Lesson, Submission]:
    """The lesson of the notebook at ``path``, and its exercise cells. Raises SubmissionError."""
    submission = read_submission(path, known_exercises())
    return find_lesson(submission.lesson_id).of(submission.cells.values()), submission


def chosen(lesson: Lesson, names: list[str]) -> list[str]:
    """``names`` where they are exercises of the lesson, without repeats; all of them where there are none. Raises
    SubmissionError."""
    for name in names:
        if name not in lesson.exercises:
            close = difflib.get_close_matches(name, lesson.exercises, 1)
            meant = f"; did you mean {close[0]}?" if close else "."
            raise SubmissionError(f"lesson {lesson.id} has no exercise {name!r}{meant} It has: "
                                  + ", ".join(lesson.exercises))
    return list(dict.fromkeys(names)) or list(lesson.exercises)
