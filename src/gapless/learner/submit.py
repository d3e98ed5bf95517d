"""The file that a learner hands in: the notebook, looked at once more, without outputs, under a name that is collected."""

from __future__ import annotations

import html
import json
import os
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from ..course.exercise import Exercise, Lesson
from ..course.notebooks.stub import handed_out
from ..course.notebooks.submission import (
    SubmissionError,
    cell_source,
    plain_notebook,
    read_notebook,
    stated_lesson,
    submission_in,
)
from ..files import write_bytes
from .marked_cell import same_text, unlike_those_run
from .own_notebook import OwnNotebook

FOLDER = "hand_in"  # beside the notebook, where it is in nobody's way: nbgrader takes the notebook's own folder
BETWEEN = "--"  # the learner's name and the lesson's: survives Canvas, Moodle and every file system
_UNTOUCHED = "as handed out"
_LONGEST_NAME = 60  # characters of a learner's name in a file's name


class CannotSubmit(ValueError):
    """There is no file to hand in; the message says what to do. In a notebook it is shown without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows."""
        return [str(self)]


@dataclass(frozen=True)
class Submitted:
    """How making the file went; shows itself in a notebook and in a terminal.

    ``path``: the file, or None where there is none, and ``why`` in words. ``states``: (exercise, how it stands).
    ``link``: the file's place from the notebook's folder, for a browser, or ""; ``bytes``: its size.
    """

    lesson: str
    path: Path | None = None
    why: str = ""
    states: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    link: str = ""
    bytes: int = 0

    @property
    def headline(self) -> str:
        if self.path is None:
            return f"No file to hand in was made. {self.why}."
        place = f"{self.link}, beside the notebook" if self.link else str(self.path)
        return f"To hand in: {place} ({self.bytes / 1000:.0f} kB, without outputs)"

    def __str__(self) -> str:
        width = max((len(name) for name, _ in self.states), default=0)
        return "\n".join([self.headline, *(f"  {name:{width}}  {state}" for name, state in self.states),
                          *(f"Note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = html.escape(self.headline)
        if self.link:
            address = html.escape(quote(self.link))
            head += f' <a href="{address}" download="{html.escape(self.path.name)}">download it</a>'
        rows = "".join(f"<tr><td style='text-align:left'><code>{html.escape(name)}</code></td>"
                       f"<td style='text-align:left'>{html.escape(state)}</td></tr>" for name, state in self.states)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<p>{head}</p>" + (f"<table>{rows}</table>" if rows else "") + notes


def make(lesson: Lesson, own: OwnNotebook, standing: Callable[[Exercise, str, Lesson], str], name: str | None,
         folder: str | os.PathLike | None, over: bool) -> Submitted:
    """Make the file to hand in of the notebook ``own``. Raises SubmissionError and CannotSubmit.

    ``standing(exercise, source, lesson)``: how the exercise stands with this text, in words; ``lesson`` is the one that the
    notebook's cells are about, where it has several programs. ``over``: whether a file that is there may be another's.
    """
    found = submission_in(own.content, own.shown, {lesson.id: list(lesson.exercises)}, lesson.id)
    if not found.cells:
        stated = stated_lesson(own.content)
        other = f"it is for lesson {stated}" if stated not in (None, lesson.id) else "it has none of the lesson's exercises"
        raise CannotSubmit(f"{own.shown} is not a notebook of lesson {lesson.id}: {other}")
    if own.path is not None and (changed := unlike_those_run(_code(own.content))):
        raise CannotSubmit(f"In the file {own.shown} the text of {' and '.join(changed)} is not what you ran last. Save "
                           "the notebook (Ctrl-S), then run this cell again; if you have changed such a cell since you ran "
                           "it, run that one first")
    about = lesson.of(found.cells.values())
    states = tuple((each, _state(exercise, found.cells.get(each), standing, about))
                   for each, exercise in about.exercises.items())
    if {state for _, state in states} == {_UNTOUCHED} and not own.named:
        raise CannotSubmit("You have not changed any exercise: there is nothing to hand in yet")
    notes = tuple(note for note in found.notes if "gets no points" not in note)
    beside = Path.cwd() if own.path is None else own.path.parent
    path = write(lesson.id, own.content, name, beside / FOLDER if folder is None else Path(folder).resolve(), over)
    link = path.relative_to(beside).as_posix() if path.is_relative_to(beside) else ""
    return Submitted(lesson.id, path, states=states, notes=notes, link=link, bytes=path.stat().st_size)


def _state(exercise: Exercise, source: str | None, standing: Callable[[Exercise, str, Lesson], str], lesson: Lesson) -> str:
    if source is None:
        return f"missing: no code cell begins with the line '# exercise: {exercise.name}'"
    if same_text(source) == same_text(handed_out(exercise)):
        return _UNTOUCHED
    return standing(exercise, source, lesson)


def offer_download(made: Submitted) -> Submitted:
    """In Colab: have the browser download the file."""
    try:
        from google.colab import files

        files.download(str(made.path))
    except Exception as error:  # a front end that is not Colab's own
        note = f"Your browser could not be asked to download it ({error}): take it from {made.path}."
    else:
        note = "Your browser downloads it now; if it asks, allow it."
    return replace(made, link="", notes=(*made.notes, note))


def _code(notebook: dict) -> list[str]:
    return [cell_source(cell) for cell in notebook["cells"] if cell.get("cell_type") == "code"]


def file_name(lesson_id: str, name: str | None) -> str:
    """``ada--02_masked_loss.ipynb``; without a name ``02_masked_loss.ipynb``. Letters of every alphabet stay; what a file
    system or a learning platform might change becomes a hyphen. Raises CannotSubmit where nothing is left of the name."""
    if name is None:
        return f"{lesson_id}.ipynb"
    if not isinstance(name, str):
        raise CannotSubmit(f"name must be text, and this is a {type(name).__name__}: lesson.submit(name=\"ada\")")
    kept = re.sub(r"[^\w.@]+|-{2,}|_{2,}", "-", unicodedata.normalize("NFC", name)).strip("-._ ")[:_LONGEST_NAME]
    if not kept:
        raise CannotSubmit(f"{name!r} leaves nothing for the file's name: give a name with letters or digits")
    return f"{kept}{BETWEEN}{lesson_id}.ipynb"


def write(lesson_id: str, notebook: dict, name: str | None, folder: Path, over: bool) -> Path:
    """Write what is handed in of ``notebook`` (as :func:`~gapless.course.notebooks.submission.parse_notebook` gives it) into
    ``folder``: whole or not at all; its path.

    A file that is there is replaced where it was made for the same lesson and learner, or where ``over`` is true. Raises
    CannotSubmit.
    """
    out = folder / file_name(lesson_id, name)
    mark = {"lesson": lesson_id, "handed_in_by": name}
    if os.path.lexists(out) and not over and (other := _not_ours(out, mark)):
        raise CannotSubmit(f"{out} already exists, and {other}. Move it away, or overwrite it: "
                           "lesson.submit(…, replace=True)")
    plain = plain_notebook(notebook)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    plain["metadata"] = {"gapless": mark, "kernelspec": kernel, "language_info": {"name": "python"}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(out, (json.dumps(plain, indent=1, ensure_ascii=False) + "\n").encode("utf-8"))
    except OSError as error:
        raise CannotSubmit(f"{out} cannot be written ({error.strerror or error}): choose another folder, "
                           "lesson.submit(…, folder=\"…\")") from None
    return out


def _not_ours(path: Path, mark: dict) -> str:
    """Why the file may not be replaced, in words, or ''."""
    try:
        found = read_notebook(path)["metadata"]["gapless"]
        if "handed_in_by" not in found:
            return "it is a notebook, and not one that lesson.submit made"
    except (SubmissionError, KeyError, TypeError):
        return "it is not one that lesson.submit made"
    if found.get("lesson") != mark["lesson"]:
        return f"it is for lesson {found.get('lesson')}"
    if found["handed_in_by"] != mark["handed_in_by"]:
        return f"it was made for {found['handed_in_by'] or 'no name'}"
    return ""
