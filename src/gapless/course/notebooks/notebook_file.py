"""Changing one cell in the text of a notebook file, and nothing else of it.

A notebook that is parsed and written again may come back with another indentation, other escapes, or its keys in another
order, which buries the change in a diff. So the place is found in the text, and the rest of the text is kept as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def replace_source(text: str, index: int, source: str) -> str:
    """The notebook ``text`` with another source in its cell number ``index``. Raises ValueError where it is no notebook."""
    key, start, end = _member(text, _cells(text)[index][0], "source")
    old = json.loads(text[start:end])
    if isinstance(old, str):
        new = _dump(source, text)
    else:
        new = _dump(source.splitlines(keepends=True), text, _Layout.at(text, key))
    return text[:start] + new + text[end:]


def insert_cell(text: str, index: int, cell: dict) -> str:
    """The notebook ``text`` with ``cell`` before its cell number ``index``, or at the end where no cell has that number.

    Raises ValueError where it is no notebook, or one without cells.
    """
    cells = _cells(text)
    if not cells:
        raise ValueError("the notebook has no cells")
    layout = _Layout.at(text, cells[0][0])
    new = _dump(cell, text, layout)
    between = "," + (layout.newline + layout.indent if layout.unit else "" if '"cells":[' in text else " ")
    if index < len(cells):
        place = cells[index][0]
        return text[:place] + new + between + text[place:]
    place = cells[-1][1]
    return text[:place] + between + new + text[place:]


class _Layout:
    """How the text is laid out where a value begins: ``unit`` is one level of indentation, or '' where all is on one
    line."""

    def __init__(self, indent: str, unit: str, newline: str):
        self.indent, self.unit, self.newline = indent, unit, newline

    @classmethod
    def at(cls, text: str, place: int) -> _Layout:
        indent = _indent(text, place)
        first = next(_members(text, _skip(text, 0)), None)
        unit = _indent(text, first[1]) if first is not None else None
        if not indent or not unit:
            return cls("", "", "")
        return cls(indent, unit, "\r\n" if "\r\n" in text else "\n")


def _indent(text: str, place: int) -> str | None:
    """The blanks from the line's beginning to ``place``; None where something else is there."""
    begin = text.rfind("\n", 0, place) + 1
    before = text[begin:place]
    return before if begin and not before.strip() else None


def _dump(value, text: str, layout: _Layout | None = None) -> str:
    # A file without any other character than ASCII stays one.
    as_ascii = text.isascii()
    if layout is None or not layout.unit:
        return json.dumps(value, separators=(",", ":") if '"cells":[' in text else None, ensure_ascii=as_ascii)
    lines = json.dumps(value, indent=layout.unit, ensure_ascii=as_ascii).split("\n")
    return (layout.newline + layout.indent).join(lines)


def _cells(text: str) -> list[tuple[int, int]]:
    """Begin and end of each cell in the text."""
    _, start, _ = _member(text, _skip(text, 0), "cells")
    if text[start] != "[":
        raise ValueError("the notebook has no list of cells")
    return list(_elements(text, start))


def _member(text: str, start: int, name: str) -> tuple[int, int, int]:
    """Where the key ``name`` of the object at ``start`` begins, and its value begins and ends."""
    found = None
    for key, *places in _members(text, start):
        if key == name:
            found = places[0], places[1], places[2]  # of two with one name the last counts, as when the file is read
    if found is None:
        raise ValueError(f"there is no {name!r}")
    return found


def _members(text: str, start: int) -> Iterator[tuple[str, int, int, int]]:
    """(key, where it begins, where its value begins and ends) of the object at ``start``."""
    if text[start : start + 1] != "{":
        raise ValueError("it is no object")
    place = _skip(text, start + 1)
    while text[place] != "}":
        key, after = _DECODER.raw_decode(text, place)
        value = _skip(text, _skip(text, after) + 1)  # behind the colon
        _, end = _DECODER.raw_decode(text, value)
        yield key, place, value, end
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)


def _elements(text: str, start: int) -> Iterator[tuple[int, int]]:
    place = _skip(text, start + 1)
    while text[place] != "]":
        _, end = _DECODER.raw_decode(text, place)
        yield place, end
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    """The first place from ``place`` on that is not blank."""
    return _BLANK.match(text, place).end()
