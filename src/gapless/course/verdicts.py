"""Verdicts as a table, the same in a notebook and on a feedback page.

Messages quote the learner's own lines, so whatever goes into HTML is escaped. Outcomes are told by a word and a
sign, not by colour alone.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence

from .checks import FAIL, INCONCLUSIVE, PASS

SIGNS = {PASS: "✓ pass", FAIL: "✗ fail", INCONCLUSIVE: "? run again"}
_EDGES = {PASS: "#0a6148", FAIL: "#a8320b", INCONCLUSIVE: "#6b6b6b"}


def points(checks: Iterable[dict]) -> tuple[float, float]:
    """(earned, possible) points of checks in JSON form."""
    checks = list(checks)
    return math.fsum(check["earned"] for check in checks), math.fsum(check["points"] for check in checks)


def as_html(checks: Sequence[dict], notes: Sequence[str] = ()) -> str:
    """Checks in JSON form as a table, the notes above it."""
    earned, possible = points(checks)
    cell = 'style="text-align:left;vertical-align:top;white-space:pre-wrap;padding:4px 10px"'
    rows = "".join(
        f'<tr><td {cell}><span style="border-left:4px solid {_EDGES[check["outcome"]]};padding-left:6px">'
        f'{SIGNS[check["outcome"]]}</span></td><td {cell}>{html.escape(check["id"].partition(".")[2])}</td>'
        f'<td {cell}>{check["earned"]:g} of {check["points"]:g}</td><td {cell}>{_prose(check["message"])}</td></tr>'
        for check in checks)
    extra = "".join(f"<p>{_prose(note)}</p>" for note in notes)
    head = "".join(f'<th style="text-align:left;padding:4px 10px">{name}</th>'
                   for name in ("outcome", "check", "points", "what was found"))
    return (f"<div><p><b>{earned:g} of {possible:g} points</b></p>{extra}<table><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div>")


def _prose(text: str) -> str:
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(text))
