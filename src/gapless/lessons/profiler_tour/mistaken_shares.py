"""The overview's three numbers as learners get them wrong: what is counted, what it is divided by, and in which unit."""

from __future__ import annotations

from statistics import median

from ...course.mistakes import Way, versions
from ...evidence.trace import Span, Trace
from .disturbances import BLOCKS, OCCUPANCY
from .right import WORK, steps_of, steps_time

EARLY = "A kernel runs before the first step starts: only what lies within the steps' time counts."
TIMES = (
    Way("time", "kernels", "It was divided by the time from the first kernel to the last one's end: divide by the steps' "
                           "time, to which the idle time before the first kernel and after the last belongs.", often=True),
    Way("time", "to the last to start", "It was divided by the time from the first kernel's start to the end of the kernel "
                                        "that starts last (`kernels[-1]`), which need not be the last to end; and the "
                                        "steps' time is longer.", often=True),
    Way("time", "host", "The host's steps end before the GPU's work: the steps' time ends "
                        "with the later of both.", often=True),
    Way("time", "without copies", "The GPU's last work may be a copy or a memset: the steps' time goes on until it ends."),
    Way("time", "kernel to end", "The steps start before the first kernel: the steps' time starts with the first "
                                 "`ProfilerStep#` block."),
    Way("time", "until the kernels end", "The last step may end on the host after the last kernel: the steps' time ends "
                                         "with the later of both."),
    Way("time", "all", "It was divided by the time of all spans of the trace. The host does other things before the first "
                       "step and after the last: the steps' time is from the first `ProfilerStep#` block.", often=True),
    Way("time", "host's end", "The steps' time was ended by the host's last span. It ends with the last `ProfilerStep#` "
                              "block or the GPU's last work."),
    Way("time", "annotations", "Some annotation that is no step was taken for one: a step's name starts with "
                               "`ProfilerStep#`."),
    Way("time", "alike", "A block that is called much like a step was taken for one: a step's name starts with "
                         "`ProfilerStep#`, with the `#`."),
    Way("time", "steps added", "The steps' durations were added up. Between two steps there is time too, and the GPU may "
                               "go on after the last: take the end minus the start.", often=True),
    Way("time", "first step", "Only the first step was looked at: the steps' time is that of all of them.", often=True),
    Way("time", "one step", "It was divided by the time of one step, where the kernels are those of all."),
    Way("time", "last by name", "The steps were sorted by name, and as text \"#10\" comes before \"#9\": go by time."),
    Way("time", "in seconds", "Numerator and denominator have different units: `duration_ms` is in ms, `start_us` and "
                              "`end_us` are in µs."),
)
UNITS = (
    Way("unit", "per cent", "A share is between 0 and 1, and this is in per cent.", often=True),
    Way("unit", "idle", "That is the share in which the GPU is *idle*: 1 minus what was asked for."),
    Way("unit", "inverse", "The division is upside down."),
    Way("unit", "per step", "It was divided by the number of steps as well: the steps' time is that of all steps already."),
    Way("unit", "rounded", "The answer was rounded: return it as it is."),
)


def kernels_of(trace: Trace) -> list[Span]:
    return [span for span in trace.spans if span.category == "kernel"]


def _length(trace: Trace, time: str) -> float:
    """What was divided by."""
    steps, kernels, (start, end) = steps_of(trace), kernels_of(trace), steps_time(trace)
    host = [span.end_us for span in trace.spans if span.category in ("op", "runtime", "python", "annotation")]
    blocks = [span for span in trace.spans if span.category == "annotation"]
    alike = [span for span in blocks if span.name.startswith("ProfilerStep")]
    last_kernel, last_work = max(k.end_us for k in kernels), max(s.end_us for s in trace.spans if s.category in WORK)
    named = sorted(steps, key=lambda span: span.name)
    return {
        "steps": lambda: end - start,
        "kernels": lambda: last_kernel - kernels[0].start_us,
        "to the last to start": lambda: kernels[-1].end_us - kernels[0].start_us,
        "host": lambda: steps[-1].end_us - start,
        "without copies": lambda: max(steps[-1].end_us, last_kernel) - start,
        "kernel to end": lambda: end - kernels[0].start_us,
        "until the kernels end": lambda: last_kernel - start,
        "all": lambda: max(s.end_us for s in trace.spans) - min(s.start_us for s in trace.spans),
        "host's end": lambda: max(*host, last_work) - start,
        "annotations": lambda: max(last_work, *(s.end_us for s in blocks)) - min(s.start_us for s in blocks),
        "alike": lambda: max(last_work, *(s.end_us for s in alike)) - min(s.start_us for s in alike),
        "steps added": lambda: sum(step.end_us - step.start_us for step in steps),
        "first step": lambda: steps[0].end_us - start,
        "one step": lambda: (end - start) / len(steps),
        "last by name": lambda: max(named[-1].end_us, last_work) - named[0].start_us,
        "in seconds": lambda: 1000 * (end - start),
        "told": lambda: sum(k.end_us - k.start_us for k in kernels if BLOCKS in k.args),
        "busy": lambda: _union(kernels, float("-inf")),
        "durations": lambda: sum(k.end_us - k.start_us for k in kernels),
    }[time]()


def _in_unit(share: float, unit: str, trace: Trace) -> float:
    return {"share": lambda: share, "per cent": lambda: 100 * share, "idle": lambda: 1 - share,
            "inverse": lambda: 1 / share, "per step": lambda: share / len(steps_of(trace)),
            "rounded": lambda: round(share, 2)}[unit]()


def _union(spans: list[Span], since: float) -> float:
    covered = 0.0
    for span in spans:
        covered += max(0.0, span.end_us - max(span.start_us, since))
        since = max(since, span.end_us)
    return covered


def _inside(spans: list[Span], step: Span) -> float:
    """The time covered within a step on the host."""
    covered, since = 0.0, step.start_us
    for span in spans:
        covered += max(0.0, min(span.end_us, step.end_us) - max(span.start_us, since))
        since = max(since, min(span.end_us, step.end_us))
    return covered


def gpu_utilization(trace: Trace, *, busy="union", time="steps", unit="share", empty=None):
    """Right as it stands."""
    kernels = kernels_of(trace)
    if not kernels:
        return empty
    (start, _), steps_end = steps_time(trace), steps_of(trace)[-1].end_us
    streams: dict = {}
    for span in kernels:
        streams.setdefault(span.thread, []).append(span)

    def forgetful() -> float:  # keeps the last end, not the furthest
        covered, since = 0.0, start
        for span in kernels:
            covered += max(0.0, span.end_us - max(span.start_us, since))
            since = span.end_us
        return covered

    us = {
        "union": lambda: _union(kernels, start),
        "added": lambda: sum(k.end_us - k.start_us for k in kernels),
        "from before": lambda: _union(kernels, float("-inf")),
        "with copies": lambda: _union([s for s in trace.spans if s.category in WORK], start),
        "copies added": lambda: sum(s.end_us - s.start_us for s in trace.spans if s.category in WORK),
        "cut off": lambda: sum(max(0.0, min(k.end_us, steps_end) - max(k.start_us, start)) for k in kernels),
        "union cut off": lambda: _union([k for k in kernels if k.end_us <= steps_end], start),
        "inside alone": lambda: _union([k for k in kernels if k.start_us >= start], start),
        "forgetful": forgetful,
        "streams": lambda: sum(_union(spans, start) for spans in streams.values()),
        "one stream": lambda: _union(next(iter(streams.values())), start),
        "neighbours": lambda: sum(min(one.end_us, following.start_us) - max(one.start_us, start)
                                  for one, following in zip(kernels, kernels[1:]))
        + kernels[-1].end_us - kernels[-1].start_us,
        "step by step": lambda: _length(trace, time) / len(steps_of(trace)) * sum(
            _inside(kernels, step) / (step.end_us - step.start_us) for step in steps_of(trace)),
        "of each step": lambda: sum(_inside(kernels, step) for step in steps_of(trace)),
        "negative too": lambda: _union([k for k in kernels if k.end_us >= start], start)
        + sum(k.end_us - start for k in kernels if k.end_us < start),
        "launches": lambda: sum(s.end_us - s.start_us for s in trace.spans if s.category == "op"),
        "gapless": lambda: max(k.end_us for k in kernels) - kernels[0].start_us,
        "number": lambda: float(len(kernels)),
        "calls too": lambda: _union([s for s in trace.spans if s.category in ("kernel", "runtime")], start),
        "first step": lambda: _inside(kernels, steps_of(trace)[0]),
        "at most all": lambda: min(sum(k.end_us - k.start_us for k in kernels), _length(trace, time)),
        "work, at most all": lambda: min(sum(s.end_us - s.start_us for s in trace.spans if s.category in WORK),
                                         _length(trace, time)),
    }[busy]()
    return _in_unit(us / _length(trace, time), unit, trace)


UTILIZATION = versions(gpu_utilization, (
    Way("empty", 0.0, "The trace has no kernel: None says that there is nothing to tell."),
    Way("empty", 0, "The trace has no kernel: None says that there is nothing to tell."),
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
    Way("busy", "negative too", "A kernel that was over before the first step starts counts as negative time: after "
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


def sm_efficiency(trace: Trace, *, running="sum", time="steps", unit="share", silent="none", empty=None, zero="told"):
    """Right as it stands."""
    (start, _), steps_end = steps_time(trace), steps_of(trace)[-1].end_us
    told = []
    for span in kernels_of(trace):
        blocks = span.args.get(BLOCKS, {"none": None, "one": 1.0}[silent])
        if blocks is not None and not (zero == "missing" and not blocks):
            told.append((span.start_us, span.end_us, blocks))
    if not told:
        return empty
    inside = [(max(since, start), until, blocks) for since, until, blocks in told if until > start]

    def sweep(spans, at_most=1.0, combine=sum) -> float:
        cuts = sorted({at for since, until, _ in spans for at in (since, until)})
        def at(left, right) -> float:
            return combine([b for since, until, b in spans if since <= left and right <= until] or [0])

        return sum(min(at_most, at(left, right)) * (right - left) for left, right in zip(cuts, cuts[1:]))

    us = {
        "sum": lambda: sweep(inside),
        "mean": lambda: sum(min(b, 1) for _, _, b in told) / len(told) * _length(trace, time),
        "each": lambda: sum(min(b, 1) * (until - since) for since, until, b in told),
        "each inside": lambda: sum(min(b, 1) * (until - since) for since, until, b in inside),
        "uncapped": lambda: sum(b * (until - since) for since, until, b in told),
        "uncapped sum": lambda: sweep(inside, float("inf")),
        "capped once": lambda: min(sum(b * (until - since) for since, until, b in told), _length(trace, time)),
        "from before": lambda: sweep(told),
        "negative": lambda: sweep(inside) + sum(min(b, 1) * (until - start) for _, until, b in told if until <= start),
        "negative sum": lambda: sum(min(b, 1) * (until - max(since, start)) for since, until, b in told),
        "largest": lambda: sweep(inside, 1.0, max),
        "cut off": lambda: sweep([(since, min(until, steps_end), b) for since, until, b in inside if since < steps_end]),
        "mean by utilisation": lambda: sum(min(b, 1) for _, _, b in told) / len(told) * _union(kernels_of(trace), start),
        "weighted by utilisation": lambda: sum(min(b, 1) * (until - since) for since, until, b in inside) / sum(
            until - since for since, until, _ in inside) * _union(kernels_of(trace), start),
        "whole": lambda: sweep([(since, until, int(b)) for since, until, b in inside]),
        "rounded up": lambda: sweep([(since, until, -(-b // 1)) for since, until, b in inside]),
        "averaged": lambda: sweep(inside, 1.0, lambda values: sum(values) / len(values)),
        "busy": lambda: sum(until - since for since, until, _ in inside),
        "union": lambda: _union(kernels_of(trace), start),
        "started inside": lambda: sweep([s for s in told if s[0] >= start]),
        "warps": lambda: sum(min(s.args.get(OCCUPANCY, 0) / 100, 1) * (s.end_us - s.start_us) for s in kernels_of(trace)),
    }[running]()
    return _in_unit(us / _length(trace, time), unit, trace)


EFFICIENCY = versions(sm_efficiency, (
    Way("empty", 0.0, "No kernel tells its blocks per SM: None says so."),
    Way("empty", 0, "No kernel tells its blocks per SM: None says so."),
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
    Way("running", "negative", "A kernel that was over before the first step starts counts as negative time: after "
                               "`max(start, first)` its end comes before its start. Leave it out."),
    Way("running", "negative sum", "A kernel that was over before the first step starts counts as negative time. Leave it "
                                   "out. And kernels run at the same time: add their blocks, then take at most 1."),
    Way("running", "cut off", "Kernels that run on after the last step were cut off: the steps' "
                              "time goes on with them.", often=True),
    Way("running", "mean by utilisation", "That is the plain mean of the blocks times the utilisation: a kernel of 2 µs "
                                          "counts as much as one of 2 ms. Weight by time."),
    Way("running", "weighted by utilisation", "That is the kernels' mean times the utilisation: where kernels run at the "
                                              "same time, their blocks per SM add up, to at most 1."),
    Way("running", "whole", "`int` makes 0 of a kernel with 0.8 blocks per SM: take the value as it is."),
    Way("running", "rounded up", "The blocks were rounded up: a kernel with 0.2 blocks per SM fills a fifth of the card."),
    Way("running", "largest", "At each moment the largest of the kernels running was taken: their blocks per SM add up."),
    Way("running", "averaged", "At each moment the mean of the kernels running was taken: their blocks per SM add up."),
    Way("running", "busy", "That is the kernels' time, whatever their blocks: weight it by `blocks per SM`, at most 1."),
    Way("running", "union", "That is GPU utilisation: each moment counts by the blocks per SM of the kernels that run."),
    Way("running", "started inside", "A kernel that was running before the first step was left out: from the step's start "
                                     "on it counts."),
    Way("running", "warps", "That is the occupancy: `args[\"blocks per SM\"]` is what was asked for."),
    Way("silent", "one", "A kernel without `blocks per SM` was counted as 1: it counts as none."),
    *TIMES, *UNITS,
))


def achieved_occupancy(trace: Trace, *, weight="time", by="told", silent="left out", zero="told", unit="share", empty=None,
                       cap=None):
    """Right as it stands."""
    kernels, told = kernels_of(trace), []
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
        "steps": lambda: _length(trace, "steps"), "host": lambda: steps[-1].end_us - steps[0].start_us,
        "busy": lambda: _union(kernels, float("-inf")), "number": lambda: float(len(told)),
        "number, ms": lambda: 1000.0 * len(told),
        "extent": lambda: _length(trace, "kernels"), "median": lambda: 1.0,
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
            "inverse": 100 / share if share else 0.0, "rounded": round(share / 100, 2), "whole": share // 1 / 100}[unit]


OCCUPIED = versions(achieved_occupancy, (
    Way("empty", 0.0, "No kernel tells its occupancy: None says so."),
    Way("empty", 0, "No kernel tells its occupancy: None says so."),
    Way("zero", "missing", "A kernel that tells 0 was left out as if it told nothing: `if value` is false for 0. Ask "
                           "whether the name is `in span.args`.", often=True),
    Way("weight", "none", "That is the plain mean: weight each kernel by its duration.", often=True),
    Way("unit", "per cent", "The trace has whole per cent; a share is between 0 and 1: divide by 100.", often=True),
    Way("by", "steps", "Idle time does not count here: divide by the time of the kernels, "
                       "not by the steps' time.", often=True),
    Way("by", "host", "Idle time does not count here: divide by the time of the kernels, not of the steps."),
    Way("by", "extent", "Idle time does not count here: divide by the sum of the kernels' durations, not by the time from "
                        "the first to the last."),
    Way("by", "kernels", "Kernels that do not tell their occupancy were counted as 0: leave "
                         "them out, their time too.", often=True),
    Way("silent", "zero", "Kernels that do not tell their occupancy were counted as 0: leave "
                          "them out, their time too.", often=True),
    Way("by", "busy", "It was divided by the time in which any kernel runs. A mean's weights are divided by their own sum: "
                      "the sum of the durations, also where kernels run at the same time."),
    Way("by", "number", "It was divided by the number of kernels. A mean with weights is divided by the sum of the "
                        "weights.", often=True),
    Way("by", "number, ms", "It was divided by the number of kernels. A mean with weights is divided by the sum of the "
                            "weights."),
    Way("zero", "none", "Every kernel tells 0 here, so the mean is 0.0: `or None` and `if not …` make None of it, which "
                        "says that no kernel tells."),
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
    Way("unit", "per mille", "Numerator and denominator have different units: `duration_ms` is "
                             "a thousandth of the µs.", often=True),
    Way("unit", "inverse", "The division is upside down."),
    Way("unit", "rounded", "The answer was rounded: return it as it is."),
    Way("unit", "whole", "The division by `//` throws away what is behind the point."),
    Way("cap", 1.0, "The trace has per cent: `min(value, 1)` makes nearly all of them 1."),
))
