"""How an exercise's cell is known: by its first line, ``# exercise: NAME``. Colab may strip metadata; the text survives.

An exercise may be a program of several files, a cell each. Such a cell begins with the line ``# file: NAME.py``; that of the
last file begins with the exercise's line, and has the file's line below it. Their texts, one behind the other under the
exercise's line, are the exercise's text.
"""

from __future__ import annotations

import re

_PROGRAM = re.compile(r"^\s*#\s*program:\s*([A-Za-z_]\w*)\s*$", re.MULTILINE)
_FILE = re.compile(r"^\s*#\s*file:\s*([A-Za-z_]\w*\.py)\s*$")
_FORM = re.compile(r"^\s*#\s*@\w")  # Colab: "# @title …", which Insert → Form puts at a cell's top
_MARKER = re.compile(r"^\s*#\s*exercise:\s*([A-Za-z_]\w*)\s*$")


def exercise_name(source: str) -> str | None:
    """The NAME of the first line ``# exercise: NAME``, else None.

    Blank lines may stand before it, and the lines of a form of Colab's. So may Jupyter's commands (``%%time``, ``!pip …``):
    the cell is still the exercise's, and the code that loads it says that they must go.
    """
    for line in source.splitlines():
        if not _may_stand_above(line):
            found = _MARKER.match(line)
            return found.group(1) if found else None
    return None


def file_name(source: str) -> str | None:
    """The NAME.py of the first line ``# file: NAME.py``, else None; before it may stand what may before an exercise's line,
    and that line."""
    for line in source.splitlines():
        if not _may_stand_above(line) and not _MARKER.match(line):
            found = _FILE.match(line)
            return found.group(1) if found else None
    return None


def _may_stand_above(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith(("%", "!")) or _FORM.match(line) is not None


def program_name(source: str) -> str | None:
    """The NAME of the line ``# program: NAME``, where the text has one: of an exercise that is one of several programs."""
    found = _PROGRAM.search(source)
    return found.group(1) if found else None


def joined(source: str, files: dict[str, str]) -> str:
    """The exercise's text: where its cell ``source`` is a file of a program, with ``files`` (name → text of the cell) before
    it."""
    if file_name(source) is None:
        return source
    head, own = _at_file_line(source.lstrip("\n"))
    before = []
    for name, text in files.items():
        if name != file_name(source):
            above, (line, *rest) = _at_file_line(text.strip("\n") + "\n")
            before.append("".join([line, *above, *rest]))  # its file's, and as many lines as before
    return "\n".join(["".join(head).removesuffix("\n"), *before, "".join(own)])


def _at_file_line(source: str) -> tuple[list[str], list[str]]:
    """The lines above the file's line, and the rest."""
    lines = source.splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if _FILE.match(line))
    return lines[:place], lines[place:]


def parts(source: str) -> dict[str, str]:
    """File name → its text, of an exercise's text that :func:`joined` gave; the lines are numbered as in the cells. Empty
    where it is no program of files."""
    if file_name(source) is None:
        return {}
    found: dict[str, list[str]] = {}
    head = lines = []
    for line in source.lstrip("\n").splitlines():
        if match := _FILE.match(line):
            lines = found[match.group(1)] = []
        lines.append(line)
    last = next(reversed(found))
    found[last][:0] = head  # the exercise's own line is in the last file's cell
    return {name: "\n".join(text) + "\n" for name, text in found.items()}
