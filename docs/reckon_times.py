"""``python docs/reckon_times.py``: how long each lesson should take, by one rule, beside what its notebook states.

The rule: prose at 130 words a minute, half a minute for each code cell, 3.5 minutes for each point of the exercises. The last is
most of it: a point is what a learner thinks, writes, checks and mends for.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
WORDS_A_MINUTE, MINUTES_A_CELL, MINUTES_A_POINT = 130, 0.5, 3.5


def notebooks() -> list[Path]:
    """The learners' notebooks, by lesson."""
    return sorted(path for path in (ROOT / "notebooks").glob("*/*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def reckoned_minutes(notebook: Path) -> float:
    """By the rule."""
    cells = nbformat.read(notebook, as_version=4).cells
    words = sum(len(prose(cell.source).split()) for cell in cells if cell.cell_type == "markdown")
    code = sum(cell.cell_type == "code" for cell in cells)
    points = sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in cells)
    return words / WORDS_A_MINUTE + code * MINUTES_A_CELL + points * MINUTES_A_POINT


def prose(markdown: str) -> str:
    """The words of a cell's text: without links' addresses, HTML's tags and the marks of tables and code."""
    text = re.sub(r"\]\([^)]*\)", "]", markdown)
    text = re.sub(r"<[^>]*>|&nbsp;", " ", text)
    return re.sub(r"[|`*#$\\]|-{2,}", " ", text)


def stated_minutes(notebook: Path) -> float:
    """What the notebook's row "time" says. Raises ValueError where there is none."""
    text = "\n".join(cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "markdown")
    row = re.search(r"^\| *time *\|([^|]*)\|", text, re.M)
    if row is None:
        raise ValueError(f"{notebook.name} has no row | time | …")
    return minutes(row[1])


def minutes(text: str) -> float:
    """A time in words: "45 min", "about an hour and a half", "1 h 40", "2 hours", "two sittings of 1 h 30 each"."""
    text = text.lower().split("(")[0]
    times = re.match(r"\D*?\b(two|three|2|3) (?:sittings|parts)\b", text)
    if times:
        text = text[times.end():]
    hours = re.search(r"\b(an|one|two|three|\d+(?:\.\d+)?)(?: and a (half|quarter))?\s*(?:hours?|h)\b(?: and a (half|quarter))?", text)
    rest = re.search(r"(\d+)\s*(?:minutes|min\b)", text) or re.search(r"\b(?:h|hours?) (?:and )?(\d+)", text)
    if not hours and not rest:
        raise ValueError(f"{text!r} is no time")
    count = {"an": 1, "one": 1, "two": 2, "three": 3}
    found = 60 * float(count.get(hours[1], hours[1])) if hours else 0.0
    found += {"half": 30, "quarter": 15}.get((hours[2] or hours[3]) if hours else None, 0)
    found += int(rest[1]) if rest else 0
    return found * (count.get(times[1]) or int(times[1]) if times else 1)


if __name__ == "__main__":
    print("lesson                         reckoned   stated")
    for path in notebooks():
        reckoned, stated = reckoned_minutes(path), stated_minutes(path)
        mark = "" if 0.75 <= stated / reckoned <= 1.25 else "   more than a quarter away"
        sys.stdout.write(f"{path.stem:30} {reckoned:4.0f} min {stated:4.0f} min{mark}\n")
