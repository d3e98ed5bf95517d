"""``gapless reset``: an exercise's cell in a notebook, back as it was handed out."""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import sys
from pathlib import Path


def add_parser(commands) -> None:
    """Add ``reset`` to the command line."""
    parser = commands.add_parser(
        "reset", help="restore an exercise's cell as you got it",
        description="Restore the cells of exercises as you got them. Everything else in the notebook stays the same, "
                    "and a copy of the old notebook is kept next to it. If an exercise's cell is gone, a new one is put "
                    "before its check, or at the end.")
    parser.add_argument("notebook", metavar="NOTEBOOK", help="the notebook (.ipynb), or the folder it is in")
    parser.add_argument("exercises", metavar="EXERCISE", nargs="*", help="the exercises")
    parser.add_argument("--all", action="store_true", help="all exercises of the lesson")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Reset, say what was done, and return the exit status."""
    from ..course.notebooks.submission import SubmissionError
    from .find import find_notebook

    try:
        path = find_notebook(arguments.notebook)
        backup, done = reset(path, arguments.exercises, arguments.all)
    except SubmissionError as error:
        print(f"gapless reset: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"gapless reset: {error.strerror or error}: {error.filename or arguments.notebook}. The notebook is as it "
              "was.", file=sys.stderr)
        return 2
    for line in done:
        print(line)
    if backup is not None:
        print(f"The notebook as it was: {backup}\n"
              "If it is open in JupyterLab: File, Reload Notebook from Disk. Do not save the old one over this.")
    return 0


def reset(path: Path, names: list[str], everything: bool = False) -> tuple[Path | None, list[str]]:
    """Reset the exercises ``names`` of the notebook at ``path``: (where the old one is kept, what was done in words).

    The path is None where there was nothing to change. Raises SubmissionError, and OSError where a file cannot be
    written; then the notebook is as it was.
    """
    from ..course.notebooks.stub import handed_out
    from ..course.notebooks.submission import SubmissionError, parse_notebook, read_notebook_bytes
    from ..files import write_bytes
    from .find import chosen, open_lesson

    path = path.resolve()  # what a link leads to is changed, and not the link
    lesson, _ = open_lesson(path)
    if bool(names) == everything:
        raise SubmissionError(f"name the exercises, or give --all. Lesson {lesson.id} has: {', '.join(lesson.exercises)}")
    content = read_notebook_bytes(path)
    if not parse_notebook(content, path)["cells"]:
        raise SubmissionError(f"{path} has no cells at all: take the lesson's notebook again")
    changed, done = content, []
    for name in chosen(lesson, names):
        changed, line = _reset_cell(changed, parse_notebook(changed, path), name, handed_out(lesson.exercises[name]))
        done.append(line)
    if changed == content:
        return None, done
    backup = _keep(path)
    if path.read_bytes() != content:
        backup.unlink()
        raise SubmissionError(f"{path} was changed by another program at the same moment: run this again")
    write_bytes(path, changed)
    return backup, done


def _reset_cell(content: bytes, notebook: dict, name: str, stub: str) -> tuple[bytes, str]:
    """(the notebook with the cell reset, what was done)."""
    from ..course.notebooks.notebook_file import insert_cell, replace_source
    from ..course.notebooks.submission import cell_source

    text = content.decode("utf-8-sig")
    mark = content[: len(content) - len(text.encode())]  # a byte order mark, or nothing
    cells = notebook["cells"]
    found = _find_cell(cells, name)
    if found is not None:
        marked = _marked(cells, name)
        more = f" It is there {len(marked)} times: the last one, which counts, was reset." if len(marked) > 1 else ""
        if cell_source(cells[found]) == stub:
            return content, f"{name}: it is as handed out already.{more}"
        new, line = replace_source(text, found, stub), f"{name}: its cell is as handed out again.{more}"
    else:
        place, where = _find_place(cells, name)
        cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
                "source": stub.splitlines(keepends=True)}
        if notebook.get("nbformat_minor", 0) >= 5:
            taken = {each.get("id") for each in cells}
            cell["id"] = next(each for each in (name, *(f"{name}-{i}" for i in range(len(cells) + 1)))
                              if each not in taken)
            cell = dict(sorted(cell.items()))
        new, line = insert_cell(text, place, cell), f"{name}: its cell was gone; there is a new one {where}."
    json.loads(new)  # nothing that cannot be read again is written
    return mark + new.encode(), line


def _marked(cells: list[dict], name: str) -> list[int]:
    from ..course.notebooks.submission import cell_source
    from ..marker import exercise_name

    return [i for i, cell in enumerate(cells)
            if cell.get("cell_type") == "code" and exercise_name(cell_source(cell)) == name]


def _find_cell(cells: list[dict], name: str) -> int | None:
    """The number of the exercise's cell: the last with its first line, else the one that has kept its id only."""
    marked = _marked(cells, name)
    if marked:
        return marked[-1]
    from ..course.notebooks.submission import cell_source
    from ..marker import exercise_name

    for i, cell in enumerate(cells):
        if name in _ids(cell) and cell.get("cell_type") == "code" and exercise_name(cell_source(cell)) is None:
            return i
    return None


def _find_place(cells: list[dict], name: str) -> tuple[int, str]:
    """(the number of the cell before which a new one goes, where that is in words)."""
    from ..course.notebooks.submission import cell_source

    check = re.compile(rf"\.check\(\s*{re.escape(name)}\s*\)")
    for i, cell in enumerate(cells):
        if cell.get("cell_type") == "code" and (f"check_{name}" in _ids(cell) or check.search(cell_source(cell))):
            return i, "before its check"
    return len(cells), "at the end of the notebook"


def _ids(cell: dict) -> set:
    metadata = cell.get("metadata")
    stated = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return {each for each in (cell.get("id"), stated.get("grade_id") if isinstance(stated, dict) else None)
            if isinstance(each, str)}


def _keep(path: Path) -> Path:
    """Copy the notebook aside, under a name that no file has."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        backup = path.with_name(f"{path.name}.bak-{stamp}" + (f"-{number}" if number else ""))
        try:
            with backup.open("xb"):
                pass
        except FileExistsError:
            continue
        shutil.copy2(path, backup)
        return backup
    raise OSError(f"there are too many backups of {path}")
