"""Lesson 01: the usual wrong versions of ``gpu_utilization``, and what to say of each."""

from __future__ import annotations

from ....course.mistakes import Way, versions
from ..mistakes import EARLY, TIMES, UNITS, gpu_utilization

UTILIZATION = versions(gpu_utilization, (
    Way("empty", 0.0, "The trace has no kernel: return None."),
    Way("empty", 0, "The trace has no kernel: return None."),
    Way("busy", "added", "Durations were added up: kernels that run at the same time count once. Merge the intervals "
                         "first.", often=True),
    Way("busy", "from before", EARLY, often=True),
    Way("busy", "with copies", "Copies do not count as kernels.", often=True),
    Way("busy", "copies added", "Copies do not count as kernels; and durations were added up, where what runs at the same "
                                "time counts once.", often=True),
    Way("busy", "cut off", "Kernels that run on after the last step were cut off: the steps' "
                           "time goes on with them.", often=True),
    Way("busy", "union cut off", "Kernels that end after the last step on the host were left out: the steps' time goes on "
                                 "with them."),
    Way("busy", "inside alone", "A kernel that was running before the first step was left out: from the step's start on it "
                                "counts."),
    Way("busy", "forgetful", "A short kernel inside a long one sets `reached` back to its own end: keep the furthest, "
                             "`max(reached, span.end_us)`."),
    Way("busy", "neighbours", "Each kernel was compared with the next alone: one that lasts longer than several others is "
                              "cut off, and time in which two run counts twice. Keep the furthest end, `max(reached, "
                              "span.end_us)`."),
    Way("busy", "step by step", "That is the mean of the steps' shares: the steps differ in length, and what the GPU does "
                                "between them and afterwards is missing. Divide once, by the whole of the steps' time."),
    Way("busy", "of each step", "Within each step on the host the time was counted: what the GPU does between the steps "
                                "and after the last is missing.", often=True),
    Way("busy", "negative too", "A kernel that had ended before the first step starts counts as negative time: after "
                                "`max(start, first)` its end comes before its start. Leave it out."),
    Way("busy", "streams", "Each stream was merged by itself and the streams were added up: kernels on two streams at the "
                           "same time count once."),
    Way("busy", "one stream", "Only the first stream's kernels were counted."),
    Way("busy", "gapless", "That is the time from the first kernel to the last: the gaps between kernels are no kernel."),
    Way("busy", "launches", "That is the host's time in operators: the GPU runs spans of category `kernel`."),
    Way("busy", "calls too", "Runtime calls were counted too: they are the host's, and the GPU runs spans of category "
                             "`kernel`."),
    Way("busy", "first step", "Only the first step's kernels were counted: the steps' time "
                              "is that of all steps.", often=True),
    Way("busy", "at most all", "Durations were added up, and the sum cut off at 1: that hides that kernels that run at the "
                               "same time were counted twice. Merge the intervals."),
    Way("busy", "work, at most all", "Durations were added up, copies with them, and the sum cut off at 1. Copies do not "
                                     "count, and what runs at the same time counts once."),
    Way("busy", "number", "The kernels were counted, and their durations asked for."),
    *TIMES, *UNITS,
))
