"""``python docs/lesson_times.py [--sections]``: how long each lesson should take, by one rule, and what its notebook says;
with ``--sections`` also each section, from one heading of the second level to the next.

The rule: prose at 130 words a minute, half a minute for each code cell, 3.5 minutes for each point of the exercises. The
last is most of it: a point stands for thinking, writing, checking and fixing.
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


def estimated_minutes(notebook: Path) -> float:
    """By the rule."""
    return _minutes_of(nbformat.read(notebook, as_version=4).cells)


def section_minutes(notebook: Path) -> list[tuple[str, float]]:
    """(heading, minutes) of each section; what stands above the first counts to the notebook's title."""
    sections: list[tuple[str, list]] = []
    for cell in nbformat.read(notebook, as_version=4).cells:
        heading = re.search(r"^##? (.*)", cell.source, re.M) if cell.cell_type == "markdown" else None
        if heading or not sections:
            sections.append((heading[1] if heading else notebook.stem, []))
        sections[-1][1].append(cell)
    return [(heading, _minutes_of(cells)) for heading, cells in sections]


def _minutes_of(cells: list) -> float:
    words = sum(len(prose(cell.source).split()) for cell in cells if cell.cell_type == "markdown")
    code = sum(cell.cell_type == "code" for cell in cells)
    points = sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in cells)
    return words / WORDS_A_MINUTE + code * MINUTES_A_CELL + points * MINUTES_A_POINT


def prose(markdown: str) -> str:
    """The words of a cell's text: without pictures, links' addresses, HTML's tags and the marks of tables and code."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", markdown)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"<[^>]*>|&nbsp;", " ", text)
    return re.sub(r"[|`*#$\\]|-{2,}", " ", text)


def stated_minutes(notebook: Path) -> float:
    """What the notebook's row "time" says. Raises ValueError where there is none."""
    text = "\n".join(cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "markdown")
    row = re.search(r"^\| *time *\|([^|]*)\|", text, re.M)
    if row is None:
        raise ValueError(f"{notebook.name} has no row | time | …")
    return minutes(row[1])


_COUNT = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4}
_HOURS = re.compile(r"(?P<count>\d+(?:\.\d+)?|an?|one|two|three|four)(?: and a (?P<inside>half|quarter))? ?h(?:ours?)?\b"
                    r"(?: and (?:a )?(?P<behind>half|quarter|three quarters))?(?:,? (?:and )?(?P<minutes>\d+))?")
_PARTS = {"half": 30, "quarter": 15, "three quarters": 45, None: 0}


def minutes(text: str) -> float:
    """A time in words: "45 min", "about an hour and a half", "1 h 40", "2 hours", "two sittings of 1 h 30 each". Raises
    ValueError for what is none."""
    text = text.lower().partition("(")[0]
    sittings = re.search(r"(\w+) (?:sittings|parts) of (.*)", text)
    if sittings:
        return float(_COUNT.get(sittings[1]) or sittings[1]) * minutes(sittings[2])
    if hours := _HOURS.search(text):
        whole = 60 * float(_COUNT.get(hours["count"]) or hours["count"])
        return whole + _PARTS[hours["inside"]] + _PARTS[hours["behind"]] + float(hours["minutes"] or 0)
    if short := re.search(r"(\d+) min", text):
        return float(short[1])
    raise ValueError(f"{text!r} is no time")


if __name__ == "__main__":
    print(f"{'lesson':60} estimated   stated")
    for path in notebooks():
        estimated, stated = estimated_minutes(path), stated_minutes(path)
        mark = "" if 0.75 <= stated / estimated <= 1.25 else "   more than a quarter away"
        sys.stdout.write(f"{path.stem:60} {estimated:4.0f} min {stated:4.0f} min{mark}\n")
        for heading, estimated in section_minutes(path) if "--sections" in sys.argv[1:] else ():
            sys.stdout.write(f"    {heading:56} {estimated:4.0f} min\n")
