"""The text of a source line that a report names."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Mapping

_CELL = re.compile(r'cell "(?P<name>[^"]*)", line (?P<line>\d+)')
_FILE = re.compile(r"(?P<file>[^:]+\.py):(?P<line>\d+)")
_LONGEST = 120


def line_at(location: str | None, cells: Mapping[str, str] = {}) -> str | None:
    """The source line of a location as :class:`gapless.evidence.report.Sync` has it: ``folder/file.py:12`` of a module that
    is imported here, or ``cell "NAME", line 4`` of a cell in ``cells`` (exercise name → text); None for any other.

    A file is found only among imported modules: a trace may name any path, and comes from anywhere.
    """
    if location is None:
        return None
    if found := _CELL.match(location):
        lines = cells.get(found["name"], "").splitlines()
    elif found := _FILE.match(location):
        files = {path for path in map(_path_of, list(sys.modules.values())) if path.endswith(f"/{found['file']}")}
        lines = linecache.getlines(files.pop()) if len(files) == 1 else []
    else:
        return None
    number = int(found["line"])
    text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return (text if len(text) <= _LONGEST else text[:_LONGEST - 1] + "…") or None


def quoted(location: str | None, cells: Mapping[str, str] = {}) -> str:
    """A colon and the line between backquotes, to stand behind a location; nothing where the line is not known."""
    text = line_at(location, cells)
    return f": `{text}`" if text and "`" not in text else ""


def _path_of(module) -> str:
    path = getattr(module, "__file__", None)
    return "/" + path.replace("\\", "/").lstrip("/") if isinstance(path, str) else ""
