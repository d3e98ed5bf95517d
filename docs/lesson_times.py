"""``python docs/lesson_times.py [--sections]``: how long each lesson should take, by one rule, and what its notebook says;
with ``--sections`` also each section, from one heading of the second level to the next.

The rule: prose at 130 words a minute, half a minute for each code cell, 3.5 minutes for each point of the exercises. The
last is most of it: a point stands for thinking, writing, checking and fixing.

A lesson has two times: its core's, and with its section "Going further". A lesson without that section is all core.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat

ROOT = Path(__file__).parents[1]
WORDS_A_MINUTE, MINUTES_A_CELL, MINUTES_A_POINT = 130, 0.5, 3.5
GOING_FURTHER = "Going further"


class Times(NamedTuple):
    """Minutes: of the core, and of all of the lesson."""

    core: float
    whole: float


def notebooks() -> list[Path]:
    """The learners' notebooks, by lesson."""
    return sorted(path for path in (ROOT / "notebooks").glob("*/*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def estimated_times(notebook: Path) -> Times:
    """By the rule."""
    sections = section_minutes(notebook)
    whole = sum(minutes for _, minutes in sections)
    return Times(whole - sum(minutes for heading, minutes in sections if heading.endswith(GOING_FURTHER)), whole)


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


def stated_times(notebook: Path) -> Times:
    """What the notebook's row "time" says. Raises ValueError where there is none."""
    text = "\n".join(cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "markdown")
    row = re.search(r"^\| *time *\|([^|]*)\|", text, re.M)
    if row is None:
        raise ValueError(f"{notebook.name} has no row | time | …")
    return times(row[1])


def times(text: str) -> Times:
    """The core's time and the whole lesson's, in words: "2 h (3 h 20 with *Going further*)", or one time for both. Raises
    ValueError for what is none."""
    core, _, whole = text.partition("(")
    return Times(minutes(core), minutes(whole or core))


_COUNT = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4}
_HOURS = re.compile(r"(?P<count>\d+(?:\.\d+)?|an?|one|two|three|four)(?: and a (?P<inside>half|quarter))? ?h(?:ours?)?\b"
                    r"(?: and (?:a )?(?P<behind>half|quarter|three quarters))?(?:,? (?:and )?(?P<minutes>\d+))?")
_PARTS = {"half": 30, "quarter": 15, "three quarters": 45, None: 0}


def minutes(text: str) -> float:
    """A time in words: "45 min", "about an hour and a half", "1 h 40", "2 hours". Raises ValueError for what is none."""
    text = text.lower()
    if hours := _HOURS.search(text):
        whole = 60 * float(_COUNT.get(hours["count"]) or hours["count"])
        return whole + _PARTS[hours["inside"]] + _PARTS[hours["behind"]] + float(hours["minutes"] or 0)
    if short := re.search(r"(\d+) min", text):
        return float(short[1])
    raise ValueError(f"{text!r} is no time")


if __name__ == "__main__":
    print(f"{'':58}    estimated         stated\n{'lesson':58}  core, whole    core, whole")
    for path in notebooks():
        estimated, stated = estimated_times(path), stated_times(path)
        far = any(abs(said - rule) > 0.25 * rule for said, rule in zip(stated, estimated))
        columns = "   ".join(f"{each.core:4.0f}, {each.whole:4.0f} min" for each in (estimated, stated))
        sys.stdout.write(f"{path.stem:58} {columns}{'   more than a quarter away' * far}\n")
        for heading, estimate in section_minutes(path) if "--sections" in sys.argv[1:] else ():
            sys.stdout.write(f"    {heading:60} {estimate:4.0f} min\n")
