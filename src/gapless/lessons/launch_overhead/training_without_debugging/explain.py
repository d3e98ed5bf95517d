"""Lesson 06: why other debug aids are to be turned off."""

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
    "statistics_kept": "nobody waits for it, and still it launches ten kernels in a step: that is the host's time too",
    "forward_repeated": "it makes the forward pass two more times, and waits for a comparison",
    "gradient_checked": "it works in one step of three only: a single step, or a median, does not see it. Take the mean of "
                        "all steps but the first",
}
_GONE = {
    "first_step_checked": "it makes the first step longer, and no other: leave the first step out of the mean",
    "weights_summed": "it works in one step of three, which it makes more than 10 % longer, and a mean step it does not. "
                      "Take the mean of all steps but the first",
    "explosions_skipped": "it costs something, and without it the log is another: it leaves out a step whose gradients "
                          "explode. Compare the log with that of all aids on",
    "norm_logged": "it costs something, and its lines are in the log that people read. Compare the log with that of all "
                   "aids on",
    "repeatable": "the log says that the run can be repeated, which it can with deterministic algorithms only. Compare the "
                  "log with that of all aids on",
}


def training_without_debugging(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first aid that is off and should not be, or the other way round."""
    kinds = case.options["kinds"]
    off, right = ([name for name in kinds if name in answer[OFF].split(", ")] for answer in (found, wanted))
    gone = [name for name in off if name not in right]
    kept = [name for name in right if name not in off]
    if gone and len(off) == len(kinds):
        return (f"All aids are off, and `{gone[0]}` should not be: " + _why_not(kinds[gone[0]]) + " Only what costs time, "
                "and is not needed, goes.")
    if gone:
        return f"`{gone[0]}` is to stay on: {_why_not(kinds[gone[0]])}"
    twice = [name for name in kept if Counter(kinds.values())[kinds[name]] > 1]
    if len(twice) > 1:
        return (f"`{twice[0]}` and `{twice[1]}` are to be turned off: both switch on the same thing, so one of them alone "
                "saves nothing while the other is on. Measure each by itself, beside the training with no aid at all.")
    if kept:
        return f"`{kept[0]}` is to be turned off: {_KEPT[kinds[kept[0]]]}."
    if found[TRIED] != ALL_TOLD:
        return "Right, and no run of yours can tell: run the training with each aid alone, and with all but that one."
    return None


def _why_not(kind: str) -> str:
    if kind in CHEAP and kind not in _GONE:
        return "a step takes hardly longer with it, so it may go on watching. Compare times."
    return f"{_GONE[kind]}."
