"""A result in words: for a terminal, and in the test notebook."""

from __future__ import annotations

import textwrap

from ..course.verdicts import SIGNS, as_html


def as_text(result: dict, width: int = 100) -> str:
    """A result (as :meth:`Result.to_json` gives it) as a table of its checks with their messages."""
    device = f"{result['device']}, simulated" if result["simulated"] else result["device"]
    lines = [f"Lesson {result['lesson']} on {device}: {result['score']:g} of {result['max_score']:g} points", ""]
    names = max((len(check["id"]) for check in result["checks"]), default=0)
    for check in result["checks"]:
        sign = SIGNS[check["outcome"]]
        lines.append(f"  {check['id']:<{names}}  {sign:<11}  {check['earned']:>4g} of {check['points']:g}")
        for paragraph in check["message"].splitlines():
            lines += textwrap.wrap(paragraph, width, initial_indent="      ", subsequent_indent="      ")
    lines += ["", *(f"Note: {note}" for note in result["notes"]), f"Confinement: {result['confinement']}",
              f"Seed of the hidden inputs: {result['seed']} (--seed repeats them)"]
    return "\n".join(lines)


def show(graded) -> None:
    """In a notebook: the verdicts of a :class:`Graded` exercise and the timeline of the learner's step."""
    from IPython.display import HTML, display

    display(HTML(as_html([verdict.to_json() for verdict in graded.verdicts])))
    run = graded.evidence.learner
    if run is None or not run.trace.events:
        return
    try:
        from ..evidence.pictures.picture import draw

        # What a feedback page shows; another form would take as long again to draw.
        display(draw(run.report, title=f"{graded.evidence.exercise}: your step"), include=["image/png", "text/plain"])
    except Exception as error:  # a picture is a help; no grade depends on it
        print(f"(no picture of the timeline: {type(error).__name__}: {error})")
