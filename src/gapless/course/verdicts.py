"""Verdicts: what a check found, in points and in words; and as a table, the same in a notebook and on a feedback page.

Messages quote the learner's own lines, so whatever goes into HTML is escaped. A word and a sign show the outcome, not
colour alone.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PASS = "pass"
FAIL = "fail"
INCONCLUSIVE = "inconclusive"

SIGNS = {PASS: "✓ pass", FAIL: "✗ fail", INCONCLUSIVE: "? run again"}
# A thick whole edge, a thick double one, a dashed one; and colours that stand out from a light page and from a dark one.
_EDGES = {PASS: ("6px solid", "#16936c"), FAIL: ("9px double", "#d9541e"), INCONCLUSIVE: ("6px dashed", "#7f8b97")}


@dataclass(frozen=True)
class Verdict:
    """One check of one exercise.

    ``id`` is ``EXERCISE.CHECK``; ``outcome`` is ``pass``, ``fail`` or ``inconclusive``
    (the measurement was too noisy to decide: run again). ``message`` speaks to the learner:
    what was found, why, and what to try next.
    """

    id: str
    exercise: str
    points: float
    outcome: str
    message: str

    def __post_init__(self):
        if self.outcome not in (PASS, FAIL, INCONCLUSIVE):
            raise ValueError(f"outcome is {self.outcome!r}; use pass, fail or inconclusive")

    @property
    def earned(self) -> float:
        """Points given: all of them for a pass, else none."""
        return self.points if self.outcome == PASS else 0.0

    def to_json(self) -> dict:
        """Plain JSON types, with ``earned`` spelled out."""
        return {
            "id": self.id,
            "exercise": self.exercise,
            "points": self.points,
            "earned": self.earned,
            "outcome": self.outcome,
            "message": self.message,
        }


def points(checks: Iterable[dict]) -> tuple[float, float]:
    """(earned, possible) points of checks in JSON form."""
    checks = list(checks)
    return math.fsum(check["earned"] for check in checks), math.fsum(check["points"] for check in checks)


def as_html(checks: Sequence[dict], notes: Sequence[str] = ()) -> str:
    """Checks in JSON form as a table, the notes above it."""
    earned, possible = points(checks)
    style = "text-align:left;vertical-align:top;white-space:pre-wrap;padding:4px 10px"

    def row(check: dict) -> str:
        cells = (html.escape(check["id"].partition(".")[2]), f"{check['earned']:g} of {check['points']:g}",
                 _prose(check["message"]))
        return (f'<tr><td style="{style};{_edge(check["outcome"])}">{SIGNS[check["outcome"]]}</td>'
                + "".join(f'<td style="{style}">{cell}</td>' for cell in cells) + "</tr>")

    rows = "".join(map(row, checks))
    extra = "".join(f"<p>{_prose(note)}</p>" for note in notes)
    head = "".join(f'<th style="text-align:left;padding:4px 10px">{name}</th>'
                   for name in ("outcome", "check", "points", "what was found"))
    return (f"<div><p><b>{earned:g} of {possible:g} points</b></p>{extra}<table><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div>")


def _edge(outcome: str) -> str:
    line, colour = _EDGES[outcome]
    # The tint lies over the page's ground, whichever that is; the text keeps the page's ink.
    return f"border-left:{line} {colour};background:{colour}22;font-weight:bold;white-space:nowrap"


def _prose(text: str) -> str:
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(text))
