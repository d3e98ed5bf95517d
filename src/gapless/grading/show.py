"""A result in words: for a terminal, for a notebook, for the feedback page.

Messages quote the learner's own lines, so whatever goes into HTML is escaped.
"""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Iterable, Sequence

from ..checks import FAIL, INCONCLUSIVE, PASS

_SIGNS = {PASS: "✓ pass", FAIL: "✗ fail", INCONCLUSIVE: "? run again"}
_EDGES = {PASS: "#0a6148", FAIL: "#a8320b", INCONCLUSIVE: "#6b6b6b"}


def points(checks: Iterable[dict]) -> tuple[float, float]:
    """(earned, possible) points of checks in JSON form."""
    checks = list(checks)
    return math.fsum(check["earned"] for check in checks), math.fsum(check["points"] for check in checks)


def as_text(result: dict, width: int = 100) -> str:
    """A result (as :meth:`Result.to_json` gives it) as a table of its checks with their messages."""
    device = f"{result['device']}, simulated" if result["simulated"] else result["device"]
    lines = [f"Lesson {result['lesson']} on {device}: {result['score']:g} of {result['max_score']:g} points", ""]
    names = max((len(check["id"]) for check in result["checks"]), default=0)
    for check in result["checks"]:
        sign = _SIGNS[check["outcome"]]
        lines.append(f"  {check['id']:<{names}}  {sign:<11}  {check['earned']:>4g} of {check['points']:g}")
        for paragraph in check["message"].splitlines():
            lines += textwrap.wrap(paragraph, width, initial_indent="      ", subsequent_indent="      ")
    lines += ["", *(f"Note: {note}" for note in result["notes"]), f"Confinement: {result['confinement']}"]
    return "\n".join(lines)


def as_html(checks: Sequence[dict], notes: Sequence[str] = ()) -> str:
    """Checks in JSON form as a table. Outcomes are told by a word and a sign, not by colour alone."""
    earned, possible = points(checks)
    cell = 'style="text-align:left;vertical-align:top;white-space:pre-wrap;padding:4px 10px"'
    rows = "".join(
        f'<tr><td {cell}><span style="border-left:4px solid {_EDGES[check["outcome"]]};padding-left:6px">'
        f'{_SIGNS[check["outcome"]]}</span></td><td {cell}>{html.escape(check["id"].partition(".")[2])}</td>'
        f'<td {cell}>{check["earned"]:g} of {check["points"]:g}</td><td {cell}>{_prose(check["message"])}</td></tr>'
        for check in checks)
    extra = "".join(f"<p>{_prose(note)}</p>" for note in notes)
    head = "".join(f'<th style="text-align:left;padding:4px 10px">{name}</th>'
                   for name in ("outcome", "check", "points", "what was found"))
    return (f"<div><p><b>{earned:g} of {possible:g} points</b></p>{extra}<table><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div>")


def _prose(text: str) -> str:
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(text))


def show(graded) -> None:
    """In a notebook: the verdicts of a :class:`Graded` exercise and the timeline of the learner's step."""
    from IPython.display import HTML, display

    display(HTML(as_html([verdict.to_json() for verdict in graded.verdicts])))
    run = graded.evidence.learner
    if run is None or not run.trace.events:
        return
    try:
        from ..picture import draw
        from ..report import StepReport

        display(draw(StepReport.from_trace(run.trace), title=f"{graded.evidence.exercise}: your step"))
    except Exception as error:  # a picture is a help; no grade depends on it
        print(f"(no picture of the timeline: {type(error).__name__}: {error})")
