"""Lesson 01: the usual wrong versions of ``achieved_occupancy``, and what to say of each."""

from __future__ import annotations

from math import inf
from statistics import median

from ....course.mistakes import Way, versions
from ....evidence.traces.trace import Trace
from ..disturbances import BLOCKS, OCCUPANCY
from ..mistakes import MIXED_UNITS, kernels_of, length, union_us
from ..right import WORK, steps_of


def achieved_occupancy(trace: Trace, *, weight="time", by="told", silent="left out", zero="told", unit="share", empty=None,
                       cap=None, which="all"):
    """Right as it stands."""
    last = inf if which != "until the host ends" else steps_of(trace)[-1].end_us
    kernels, told = [kernel for kernel in kernels_of(trace) if kernel.end_us <= last], []
    if which == "last of a name":
        kernels = list({kernel.name: kernel for kernel in kernels}.values())
    for span in kernels:
        value = span.args.get(OCCUPANCY, 0 if silent == "zero" else None)
        if value is not None and not (zero == "missing" and not value):
            us = span.end_us - span.start_us
            factor = {"time": us, "blocks above": us, "none": 1.0, "blocks": span.args.get(BLOCKS, 0),
                      "blocks time": span.args.get(BLOCKS, 0) * us, "warps": min(span.args.get(BLOCKS, 0), 1.0) * us}[weight]
            told.append((value if cap is None else min(value, cap), factor, us))
    if not told:
        return empty
    steps = steps_of(trace)
    divisor = {
        "told": lambda: sum(factor for _, factor, _ in told),
        "kernels": lambda: sum(k.end_us - k.start_us for k in kernels),
        "nothing": lambda: 1.0, "nothing, ms": lambda: 1000.0,
        "work": lambda: sum(s.end_us - s.start_us for s in trace.spans if s.category in WORK),
        "steps": lambda: length(trace, "steps"), "host": lambda: steps[-1].end_us - steps[0].start_us,
        "busy": lambda: union_us(kernels, float("-inf")), "number": lambda: float(len(told)),
        "number, ms": lambda: 1000.0 * len(told),
        "extent": lambda: length(trace, "kernels"), "median": lambda: 1.0,
        "largest": lambda: 1.0, "smallest": lambda: 1.0,
    }[by]()
    total = sum(value * factor for value, factor, _ in told)
    if weight == "blocks above":
        total = sum(k.args[OCCUPANCY] * min(k.args.get(BLOCKS, 0), 1) * (k.end_us - k.start_us) for k in kernels
                    if OCCUPANCY in k.args)
    values = [value for value, _, _ in told]
    if by in ("median", "largest", "smallest"):
        total = {"median": median, "largest": max, "smallest": min}[by](values)
    share = total / divisor
    if zero == "none" and not share:
        return None
    return {"share": share / 100, "per cent": share, "twice": share / 1e4, "per mille": share / 1000,
            "times 1000": 10 * share, "by 1000": share / 1e5, "inverse": 100 / share if share else 0.0,
            "rounded": round(share / 100, 2), "whole": share // 1 / 100, "floored": share // 100}[unit]


OCCUPIED = versions(achieved_occupancy, (
    Way("empty", 0.0, "No kernel has an occupancy: return None."),
    Way("empty", 0, "No kernel has an occupancy: return None."),
    Way("zero", "missing", "You left out a kernel with the value 0 as if it had none: `if value` is false for 0. Ask "
                           "whether the name is `in span.args`.", often=True),
    Way("weight", "none", "That is the plain mean: weight each kernel by its duration.", often=True),
    Way("unit", "per cent", "The trace has whole per cent; a share is between 0 and 1: divide by 100.", often=True),
    Way("by", "steps", "Idle time does not count here: divide by the time of the kernels, "
                       "not by the steps' time.", often=True),
    Way("by", "host", "Idle time does not count here: divide by the time of the kernels, not of the steps."),
    Way("by", "extent", "Idle time does not count here: divide by the sum of the kernels' durations, not by the time from "
                        "the first to the last."),
    Way("by", "kernels", "You counted kernels without an occupancy as 0: leave them out, their time too.", often=True),
    Way("silent", "zero", "You counted kernels without an occupancy as 0: leave them out, their time too.", often=True),
    Way("by", "busy", "It was divided by the time in which any kernel runs. A mean's weights are divided by their own sum: "
                      "the sum of the durations, also where kernels run at the same time."),
    Way("by", "number", "It was divided by the number of kernels. A mean with weights is divided by the sum of the "
                        "weights.", often=True),
    Way("by", "number, ms", "It was divided by the number of kernels. A mean with weights is divided by the sum of the "
                            "weights."),
    Way("zero", "none", "Every kernel has 0 here, so the mean is 0.0: `or None` and `if not …` make None of it, which "
                        "means that no kernel has the value."),
    Way("by", "nothing", "That is the sum of occupancy times duration: divide by the sum of the durations."),
    Way("by", "nothing, ms", "That is the sum of occupancy times duration: divide by the sum of the durations."),
    Way("by", "work", "Copies and memsets have no occupancy: divide by the kernels' time alone."),
    Way("weight", "blocks above", "The occupancy was multiplied by the blocks too: weight by the duration alone."),
    Way("by", "largest", "That is the largest of all: the mean was asked for, weighted by duration."),
    Way("by", "smallest", "That is the smallest of all: the mean was asked for, weighted by duration."),
    Way("by", "median", "That is the median: the mean was asked for, weighted by duration."),
    Way("weight", "blocks", "It was weighted by the blocks: weight by the duration."),
    Way("weight", "blocks time", "It was weighted by blocks times duration: weight by the duration alone."),
    Way("weight", "warps", "It was weighted by blocks times duration: weight by the duration alone."),
    Way("unit", "twice", "It was divided by 100 twice."),
    Way("unit", "per mille", MIXED_UNITS, often=True), Way("unit", "times 1000", MIXED_UNITS),
    Way("unit", "by 1000", MIXED_UNITS),
    Way("which", "until the host ends", "Kernels that end after the last step on the host were left out: the mean is over "
                                        "all kernels."),
    Way("which", "last of a name", "Only the last kernel of each name counts, as in a dict by name, or only the last "
                                   "step's kernels. The mean is over all kernels."),
    Way("unit", "inverse", "The division is upside down."),
    Way("unit", "rounded", "The answer was rounded: return it as it is."),
    *(Way("unit", unit, "The division by `//` throws away what is behind the point.") for unit in ("whole", "floored")),
    Way("cap", 1.0, "The trace has per cent: `min(value, 1)` makes nearly all of them 1."),
))
