"""A submission: the exercise cells of a notebook file, found by their marker lines.

Needs the standard library only, so that a notebook can be read wherever it was written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..marker import exercise_name

_LARGEST_FILE = 100 * 2**20  # bytes; a notebook with its pictures stays far below


class SubmissionError(ValueError):
    """The file cannot be graded at all; the message says why and what to do next."""


@dataclass(frozen=True)
class Submission:
    """What is graded of a notebook: exercise name → source of its cell.

    ``notes`` tell the learner what was odd about the file (a duplicated cell, a missing one).
    """

    lesson_id: str
    cells: dict[str, str]
    notes: list[str] = field(default_factory=list)


def read_submission(path: str | os.PathLike, lessons: Mapping[str, Iterable[str]],
                    lesson_id: str | None = None) -> Submission:
    """Read the notebook at ``path``.

    ``lessons``: lesson id → its exercise names, of every known lesson. Which of them the notebook belongs
    to is ``lesson_id`` where given, else its metadata ``gapless.lesson``, else the lesson that most of
    its exercise cells name, else the file's name. Where an exercise cell is there twice the last one
    counts, as it does when the notebook is run from top to bottom. Raises SubmissionError.
    """
    path = Path(path)
    notebook = read_notebook(path)
    found: list[tuple[str, str]] = []
    notes = []
    for cell in notebook["cells"]:
        source = cell_source(cell)
        name = exercise_name(source)
        if name is None:
            continue
        if cell.get("cell_type") == "code":
            found.append((name, source))
        else:
            notes.append(f"The cell of exercise {name!r} is a {cell.get('cell_type')} cell: make it a code cell.")
    lesson_id = lesson_id or _which_lesson(path, notebook, [name for name, _ in found], lessons)
    if lesson_id not in lessons:
        raise SubmissionError(
            f"{path}: unknown lesson {lesson_id!r}. Known lessons: {', '.join(sorted(lessons)) or 'none'}. "
            "Start from the lesson's own notebook and keep each cell's first line, '# exercise: NAME'."
        )
    cells: dict[str, str] = {}
    for name, source in found:
        if name not in lessons[lesson_id]:
            notes.append(f"There is no exercise {name!r} in lesson {lesson_id}; its cell was left out.")
        else:
            if name in cells:
                notes.append(f"Exercise {name!r} is there more than once: the last cell counts.")
            cells[name] = source
    for name in lessons[lesson_id]:
        if name not in cells:
            notes.append(f"No code cell begins with the line '# exercise: {name}': that exercise gets no points.")
    return Submission(lesson_id, cells, list(dict.fromkeys(notes)))


def read_notebook(path: str | os.PathLike) -> dict:
    """The notebook file at ``path`` as JSON, of the right form as far as reading it goes. Raises SubmissionError."""
    return parse_notebook(read_notebook_bytes(path), path)


def read_notebook_bytes(path: str | os.PathLike) -> bytes:
    """What is in the file. Raises SubmissionError where it is no file that can be read, or too large."""
    path = Path(path)
    if path.is_dir():
        raise SubmissionError(f"{path} is a folder: name the notebook (.ipynb) in it")
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise SubmissionError(
                f"{path} is larger than {_LARGEST_FILE // 2**20} MB: clear its outputs and save it again")
        return path.read_bytes()
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}") from None


def parse_notebook(content: bytes, path: str | os.PathLike) -> dict:
    """The notebook in ``content``, which was read from ``path``. Raises SubmissionError."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SubmissionError(f"{path} is not a notebook: it is not text. Save it again as .ipynb") from None
    if not text.strip():
        raise SubmissionError(f"{path} is empty: save the notebook again and submit that file")
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SubmissionError(f"{path} is not a notebook: it is not JSON ({error})") from None
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise SubmissionError(f"{path} is JSON but not a notebook: it has no 'nbformat'")
    if notebook["nbformat"] != 4:
        raise SubmissionError(
            f"{path} is in notebook format {notebook['nbformat']!r}, not 4: open it in JupyterLab and save it again")
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise SubmissionError(f"{path} is damaged: it has no list of cells. Save the notebook again")
    return notebook


def cell_source(cell: dict) -> str:
    """A cell's source as one text; empty where it has none."""
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _which_lesson(path: Path, notebook: dict, names: list[str], lessons: Mapping[str, Iterable[str]]) -> str:
    try:
        stated = notebook["metadata"]["gapless"]["lesson"]
    except (KeyError, TypeError):
        stated = None
    if isinstance(stated, str) and stated:
        return stated
    shared = {lesson: len(set(names) & set(exercises)) for lesson, exercises in lessons.items()}
    best = max(shared, key=shared.get, default=None)
    if best is not None and shared[best]:
        return best
    return path.stem
