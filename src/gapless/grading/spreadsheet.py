"""CSV for spreadsheets: cells that one would take for a formula are made text by an apostrophe before them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def harmless(value: object) -> object:
    """``value``; text that begins as a spreadsheet's formula does, with an apostrophe before it. None is an empty cell."""
    if value is None:
        return ""
    return f"'{value}" if is_formula(value) else value


def is_formula(value: object) -> bool:
    """Whether a spreadsheet might compute ``value`` instead of showing it."""
    return isinstance(value, str) and value.lstrip(" \n").startswith(_FORMULA)


def written(rows: Iterable[Iterable[object]]) -> bytes:
    """The CSV of ``rows``, every cell made harmless, in UTF-8."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([harmless(value) for value in row] for row in rows)
    return table.getvalue().replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
