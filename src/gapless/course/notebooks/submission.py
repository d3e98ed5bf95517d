"""A submission: the exercise cells of a notebook file, found by their marker lines.

Needs the standard library only, so that a notebook can be read wherever it was written.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...files import read_regular
from ...marker import exercise_name, file_name, joined

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
    """Read the notebook at ``path``, as :func:`submission_in` does. Raises SubmissionError."""
    return submission_in(read_notebook(path), path, lessons, lesson_id)


def submission_in(notebook: dict, path: str | os.PathLike, lessons: Mapping[str, Iterable[str]],
                  lesson_id: str | None = None) -> Submission:
    """What is graded of ``notebook``, as :func:`parse_notebook` gives it, which was read from ``path``.

    ``lessons``: lesson id → its exercise names, of every known lesson. Which of them the notebook belongs
    to is ``lesson_id`` where given, else its metadata ``gapless.lesson``, else the lesson that most of
    its exercise cells name, else the file's name. Where an exercise cell is there twice the last one
    counts, as it does when the notebook is run from top to bottom, and so with the cells of a program's files, which are put
    together with the exercise's. Raises SubmissionError.
    """
    path = Path(path)
    found: list[tuple[str, str]] = []
    notes, files = [], {}
    for cell in notebook["cells"]:
        source = cell_source(cell)
        name = exercise_name(source)
        if name is None:
            if (file := file_name(source)) and cell.get("cell_type") == "code":
                if file in files:
                    notes.append(f"The file {file} is there more than once: the last cell counts.")
                files[file] = source
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
            cells[name] = joined(source, files)
    for name in lessons[lesson_id]:
        if name not in cells:
            notes.append(f"No code cell begins with the line '# exercise: {name}': that exercise gets no points.")
    return Submission(lesson_id, cells, list(dict.fromkeys(notes)))


def read_notebook(path: str | os.PathLike) -> dict:
    """The notebook file at ``path`` as JSON, of the right form as far as reading it goes. Raises SubmissionError."""
    return parse_notebook(read_notebook_bytes(path), path)


def read_notebook_bytes(path: str | os.PathLike, follow_links: bool = True) -> bytes:
    """What is in the file. ``follow_links``: whether ``path`` itself may be a symbolic link. Raises SubmissionError where
    it is no file that can be read, or too large."""
    path = Path(path)
    if path.is_dir():
        raise SubmissionError(f"{path} is a folder: name the notebook (.ipynb) in it")
    try:
        return read_regular(path, _LARGEST_FILE, follow_links)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise SubmissionError(f"{path}: {error.strerror}. Clear the notebook's outputs and save it again") from None
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}") from None


def parse_notebook(content: bytes, path: str | os.PathLike) -> dict:
    """The notebook in ``content``, which was read from ``path``. Raises SubmissionError."""
    try:
        # PowerShell's > writes UTF-16.
        text = content.decode("utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
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
    return source.replace("\r\n", "\n").replace("\r", "\n") if isinstance(source, str) else ""


def stated_lesson(notebook: dict) -> str | None:
    """The lesson that the notebook's metadata names (``gapless.lesson``), or None."""
    try:
        stated = notebook["metadata"]["gapless"]["lesson"]
    except (KeyError, TypeError):
        return None
    return stated if isinstance(stated, str) and stated else None


def _which_lesson(path: Path, notebook: dict, names: list[str], lessons: Mapping[str, Iterable[str]]) -> str:
    if stated := stated_lesson(notebook):
        return stated
    shared = {lesson: len(set(names) & set(exercises)) for lesson, exercises in lessons.items()}
    best = max(shared, key=shared.get, default=None)
    if best is not None and shared[best]:
        return best
    return path.stem


def plain_notebook(notebook: dict) -> dict:
    """``notebook``, as :func:`parse_notebook` gives it, in notebook format 4.5 with its cells' types and sources, the
    pictures attached to its text and the ids that nbgrader gave them: no outputs, no other metadata, no text that cannot be
    written to a file."""
    def text(value: str) -> str:
        return value.encode("utf-8", "replace").decode("utf-8")

    cells = []
    for number, cell in enumerate(notebook["cells"]):
        kind = cell.get("cell_type") if cell.get("cell_type") in ("code", "markdown") else "raw"
        plain: dict = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text(cell_source(cell))}
        with contextlib.suppress(KeyError, TypeError, AttributeError):
            plain["metadata"]["nbgrader"] = {"grade_id": text(cell["metadata"]["nbgrader"]["grade_id"])}
        if kind == "code":
            plain |= {"outputs": [], "execution_count": None}
        elif attached := _pictures(cell.get("attachments")):
            plain["attachments"] = attached
        cells.append(plain)
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}


_PICTURES = {"image/png", "image/jpeg", "image/gif"}


def _pictures(attachments) -> dict[str, dict[str, str]]:
    """Those attachments of a cell that are pictures: name → MIME type → base64."""
    found = {}
    for name, kinds in attachments.items() if isinstance(attachments, dict) else ():
        if isinstance(kinds, dict):
            kept = {kind: data for kind, data in kinds.items() if kind in _PICTURES and _is_base64(data)}
            if kept:
                found[name.encode("utf-8", "replace").decode("utf-8")] = kept
    return found


def _is_base64(data) -> bool:
    try:
        return bool(base64.b64decode("".join(data.split()), validate=True))
    except (ValueError, AttributeError):
        return False
