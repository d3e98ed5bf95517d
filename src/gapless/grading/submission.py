"""What lies in a student's folder: the notebook of a lesson among the files that were handed in.

Needs the standard library only, so that a notebook can be read wherever it was written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..course.notebooks.submission import SubmissionError, cell_source, parse_notebook, read_notebook_bytes, stated_lesson
from ..marker import exercise_name


@dataclass(frozen=True)
class HandedIn:
    """The notebook in a folder: its file's ``name``, what is in it (``content``) and the same as JSON (``notebook``).

    ``notes`` tell the learner which file was taken where that is not plain.
    """

    name: str
    content: bytes
    notebook: dict
    notes: list[str] = field(default_factory=list)


def find_handed_in(folder: str | os.PathLike, lesson_id: str, exercises: Iterable[str]) -> HandedIn:
    """The notebook of a lesson in ``folder``: the file ``LESSON.ipynb``, else, whatever it is called, the one whose content
    says that it is for the lesson.

    ``exercises``: the names of the lesson's. Raises SubmissionError, with words for the learner, where there is no such
    notebook, where there are several, or where it has none of the exercises.
    """
    folder, exercises = Path(folder), set(exercises)
    expected = f"{lesson_id}.ipynb"
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
    except OSError as error:
        raise SubmissionError(f"the submission is not a readable folder ({error.strerror}): hand in {expected}"
                              ) from None
    # Browsers and platforms add an ending, or take it.
    notebooks = [name for name in names if ".ipynb" in name.lower() or name.endswith(".json") or "." not in name]
    notes = []
    if expected in names:
        name, found = expected, _read_named(folder / expected)
        others = [name for name in notebooks if name != expected]
        if others:
            notes.append(f"Graded is {expected}. Also handed in, and not graded: {', '.join(others)}.")
    else:
        readable, reasons = {}, []
        for name in notebooks:
            try:
                readable[name] = _read_named(folder / name)
            except SubmissionError as error:
                reasons.append(str(error))
        fitting = {name: each for name, each in readable.items() if is_for(each[1], lesson_id, exercises)}
        if not fitting:
            there = "; ".join([*reasons, *(f"{name} is for another lesson" for name in readable)])
            raise SubmissionError(f"no notebook of lesson {lesson_id} was handed in" + (f" ({there})" if there else "")
                                  + f": hand in {expected}")
        if len(fitting) > 1:
            raise SubmissionError(f"{len(fitting)} notebooks of lesson {lesson_id} were handed in ({', '.join(fitting)}): "
                                  f"hand in one, as {expected}")
        (name, found), = fitting.items()
        notes.append(f"The file is called {name}, not {expected}: it was found by what is in it.")
    content, notebook = found
    if exercises and not exercises & set(_marked(notebook)):
        raise SubmissionError(f"{name} has none of the exercises of lesson {lesson_id}, whose cells begin with a line such "
                              f"as '# exercise: {min(exercises)}': hand in that lesson's notebook")
    return HandedIn(name, content, notebook, notes)


def _read_named(path: Path) -> tuple[bytes, dict]:
    """What is in the file, which must be no link to somebody else's, and the same as JSON; errors call it by its name
    alone, which is all the learner knows."""
    try:
        content = read_notebook_bytes(path, follow_links=False)
    except SubmissionError as error:
        raise SubmissionError(str(error).replace(str(path), path.name, 1)) from None
    return content, parse_notebook(content, path.name)


def _marked(notebook: dict) -> list[str]:
    """The names in the first lines of its cells, whatever their type."""
    return [name for cell in notebook["cells"] if (name := exercise_name(cell_source(cell)))]


def is_for(notebook: dict, lesson_id: str, exercises: set[str]) -> bool:
    """Whether the notebook says that it is for the lesson, or has one of its ``exercises``."""
    return stated_lesson(notebook) == lesson_id or bool(exercises & set(_marked(notebook)))
