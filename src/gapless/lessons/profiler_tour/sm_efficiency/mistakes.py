"""Lesson 01: the usual wrong versions of ``sm_efficiency``, and what to say of each."""

from __future__ import annotations

from ....course.mistakes import Way, versions
from ..mistakes import EARLY, TIMES, UNITS, sm_efficiency

EFFICIENCY = versions(sm_efficiency, (
    Way("empty", 0.0, "No kernel has blocks per SM: return None."),
    Way("empty", 0, "No kernel has blocks per SM: return None."),
    Way("running", "mean", "That is the plain mean: a kernel of 2 µs counts as much as one "
                           "of 2 ms. Weight by time.", often=True),
    Way("time", "told", "That is the mean over the kernels' time. Idle time counts here, as 0: "
                        "divide by the steps' time.", often=True),
    Way("time", "durations", "It was divided by the kernels' time. Idle time counts here, as 0: "
                             "divide by the steps' time.", often=True),
    Way("time", "busy", "It was divided by the time in which a kernel runs. Idle time counts here, as 0: divide by the "
                        "steps' time.", often=True),
    Way("running", "each", "Kernels run at the same time in this trace: add their blocks per SM first, then take at most 1 "
                           "of the sum.", often=True),
    Way("running", "each inside", "Kernels run at the same time in this trace: add their blocks per SM first, then take at "
                                  "most 1 of the sum."),
    Way("running", "uncapped", "No SM is more than busy: at most 1 at any moment.", often=True),
    Way("running", "uncapped sum", "No SM is more than busy: at most 1 at any moment."),
    Way("running", "capped once", "At most 1 at *each moment*: what one moment has too much fills no idle one. Take the "
                                  "minimum before you weight by time."),
    Way("running", "from before", EARLY, often=True),
    Way("running", "negative", "A kernel that had ended before the first step starts counts as negative time: after "
                               "`max(start, first)` its end comes before its start. Leave it out."),
    Way("running", "negative sum", "A kernel that had ended before the first step starts counts as negative time. Leave it "
                                   "out. And kernels run at the same time: add their blocks, then take at most 1."),
    Way("running", "cut off", "Kernels that run on after the last step were cut off: the steps' "
                              "time goes on with them.", often=True),
    Way("running", "mean by utilisation", "That is the plain mean of the blocks times the utilisation: a kernel of 2 µs "
                                          "counts as much as one of 2 ms. Weight by time."),
    Way("running", "weighted by utilisation", "That is the kernels' mean times the utilisation: where kernels run at the "
                                              "same time, their blocks per SM add up, to at most 1."),
    Way("running", "whole", "`int` makes 0 of a kernel with 0.8 blocks per SM: take the value as it is."),
    Way("running", "rounded up", "The blocks were rounded up: a kernel with 0.2 blocks per SM fills a fifth of the card."),
    Way("running", "to a tenth", "The blocks were rounded: take the value as it is."),
    Way("zero", "none", "Every kernel has 0 here, so the answer is 0.0: `or None` and `if not …` make None of it, which "
                        "means that no kernel has the value."),
    Way("running", "largest", "At each moment the largest of the kernels running was taken: their blocks per SM add up."),
    *(Way("running", way, "At each moment the mean of the kernels running was taken: their blocks per SM add up.")
      for way in ("averaged", "capped, averaged")),
    Way("running", "busy", "That is the kernels' time, whatever their blocks: weight it by `blocks per SM`, at most 1."),
    Way("running", "union", "That is GPU utilisation: each moment counts by the blocks per SM of the kernels that run."),
    Way("running", "started inside", "A kernel that was running before the first step was left out: from the step's start "
                                     "on it counts."),
    Way("running", "warps", "That is the occupancy: `args[\"blocks per SM\"]` is what was asked for."),
    Way("silent", "one", "A kernel without `blocks per SM` was counted as 1: it counts as none."),
    *TIMES, *UNITS,
))
