"""Lesson 06: why a choice of debug aids is wrong."""

from __future__ import annotations

from collections import Counter

from ....course.evidence import Case
from .cases import CHEAP
from .stage import ALL_TOLD, OFF, TRIED

_KEPT = {
    "anomaly_mode": "it looks for nan in each gradient of the backward pass, and the host waits for each answer",
    "launches_wait": "the host waits for each kernel before it launches the next. The limit is 10 % of a step of a "
                     "training without any aid",
    "statistics_read": "it reads two numbers of each layer's outputs, and the host waits for each",
    "statistics_kept": "nothing waits for it, but it launches ten kernels in a step, which costs the host time too",
    "forward_repeated": "it runs the forward pass two more times, and waits for a comparison",
    "norm_kept": "a step with it takes 14 % longer than one with no aid",
    "gradient_checked": "it works in only one step of three, so a single step or a median does not show it. Take the "
                        "mean of all steps but the first",
}
_GONE = {
    "norm_kept": "a step with it takes only 8.6 % longer. The limit is 10 % of a step with no aid, however long that is",
    "first_step_checked": "it makes only the first step longer: leave the first step out of the mean",
    "weights_summed": "it makes one step of three more than 10 % longer, but not the mean step. Take the mean of all "
                      "steps but the first",
    "explosions_skipped": "it costs time, but the log changes without it: it skips a step whose gradients explode. "
                          "Compare the log with that of all aids on",
    "norm_logged": "it costs time, but people read its lines in the log. Compare the log with that of all aids on, line by "
                   "line",
    "ratio_added": "it costs time, but it adds a line at the end of the log. It does that only beside another aid, so alone "
                   "it changes nothing. Compare the log of all aids except it with that of all aids on, as a whole",
    "repeatable": "the log says that the run is repeatable, which needs deterministic algorithms. Compare the log with "
                  "that of all aids on",
}


def training_without_debugging(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first aid that is off and should not be, or the other way round."""
    kinds = case.options["kinds"]
    off, right = ([name for name in kinds if name in answer[OFF].split(", ")] for answer in (found, wanted))
    gone = [name for name in off if name not in right]
    kept = [name for name in right if name not in off]
    if gone and len(off) == len(kinds):
        return (f"All aids are off, but `{gone[0]}` must stay on: " + _why_not(kinds[gone[0]]) +
                " Turn off only what costs time and is not needed.")
    if gone:
        return f"`{gone[0]}` must stay on: {_why_not(kinds[gone[0]])}"
    twice = [name for name in kept if Counter(kinds.values())[kinds[name]] > 1]
    if len(twice) > 1:
        return (f"Turn off both `{twice[0]}` and `{twice[1]}`. They turn on the same thing, so one of them alone saves "
                "nothing while the other is on. Measure each alone, and compare with the training with no aid at all.")
    if kept:
        return f"Turn off `{kept[0]}`: {_KEPT[kinds[kept[0]]]}."
    if found[TRIED] != ALL_TOLD:
        return "Right, but none of your runs can tell: run the training with each aid alone, and with all but that one."
    return None


def _why_not(kind: str) -> str:
    if kind in CHEAP and kind not in _GONE:
        return "a step takes hardly longer with it, so it may stay on. Compare times."
    return f"{_GONE[kind]}."
