"""Lesson 01: what the wrong versions of several exercises share."""

from __future__ import annotations

from ...course.mistakes import Way
from ...evidence.traces.trace import Span, Trace
from .disturbances import BLOCKS, OCCUPANCY
from .right import WORK, steps_of, steps_time

THREAD = "Spans are nested only with those on their own thread: compare `span.thread`"
PAIR = (f"{THREAD}, the whole pair. The number of the thread alone (`tid`) is also that of a thread in another process, "
        "and the process alone that of all its threads.")
MAIN_ONLY = ("Only the main thread was looked at: the backward pass has operators on a thread of its own, which count as "
             "well, each with what happens on its own thread.")
CLOSED = ("What comes at the very end of an operator is no longer inside it: `op.start_us <= moment < op.end_us`, the end "
          "not included.")


def threads_match(op: Span, thread: tuple, way: str | tuple) -> bool:
    if isinstance(way, tuple):  # only what is on that one thread
        return op.thread == thread == way
    return {"own": op.thread == thread, "any": True, "tid": op.thread[1] == thread[1],
            "process": op.thread[0] == thread[0]}[way]


def spans_around(spans: list[Span], at: float, until: float, thread: tuple, threads="own", ends="open") -> list[Span]:
    """The spans around a moment, outer before inner."""
    inside = {"open": lambda op: op.start_us <= at < op.end_us, "closed": lambda op: op.start_us <= at <= op.end_us,
              "both open": lambda op: op.start_us < at < op.end_us,
              "by its end": lambda op: op.start_us <= until <= op.end_us}[ends]
    return [op for op in spans if inside(op) and threads_match(op, thread, threads)]


MIXED_UNITS = ("Numerator and denominator have different units: `duration_ms` is in ms, `start_us` and `end_us` are in µs.")
EARLY = "A kernel runs before the first step starts: only what lies within the steps' time counts."
TIMES = (
    Way("time", "kernels", "It was divided by the time from the first kernel to the last one's end: divide by the steps' "
                           "time, to which the idle time before the first kernel and after the last belongs.", often=True),
    Way("time", "to the last to start", "It was divided by the time from the first kernel's start to the end of the kernel "
                                        "that starts last (`kernels[-1]`), which may not be the last to end; and the "
                                        "steps' time is longer.", often=True),
    Way("time", "last work to start", "The steps' time was ended by the work that starts last, and other work may end "
                                      "later: take the latest end of all."),
    Way("time", "host", "The host's steps end before the GPU's work: the steps' time ends "
                        "with the later of both.", often=True),
    Way("time", "without copies", "The GPU's last work may be a copy or a memset: the steps' time goes on until it ends."),
    Way("time", "kernel to end", "The steps start before the first kernel: the steps' time starts with the first "
                                 "`ProfilerStep#` block."),
    Way("time", "until the kernels end", "The last step may end on the host after the last kernel: the steps' time ends "
                                         "with the later of both. Is a step's copy on the GPU's row taken for the step? Its "
                                         "category is another."),
    Way("time", "all", "It was divided by the time of all spans of the trace. The host does other things before the first "
                       "step and after the last: the steps' time is from the first `ProfilerStep#` block.", often=True),
    Way("time", "host's end", "The steps' time was ended by the host's last span. It ends with the last `ProfilerStep#` "
                              "block or the GPU's last work."),
    Way("time", "annotations", "Some annotation that is not a step was taken for one: a step's name starts with "
                               "`ProfilerStep#`."),
    Way("time", "alike", "A block that is called much like a step was taken for one: a step's name starts with "
                         "`ProfilerStep#`, with the `#`."),
    Way("time", "steps added", "The steps' durations were added up. Between two steps there is time too, and the GPU may "
                               "go on after the last: take the end minus the start.", often=True),
    Way("time", "first step", "Only the first step was looked at: the steps' time is that of all of them.", often=True),
    Way("time", "one step", "It was divided by the time of one step, where the kernels are those of all."),
    Way("time", "last by name", "The steps were sorted by name, and as text \"#10\" comes before \"#9\": sort by time."),
    Way("time", "in seconds", MIXED_UNITS),
)
UNITS = (
    Way("unit", "per cent", "A share is between 0 and 1, and this is in per cent.", often=True),
    Way("unit", "idle", "That is the share in which the GPU is *idle*: 1 minus what was asked for."),
    Way("unit", "inverse", "The division is upside down."),
    Way("unit", "per step", "It was divided by the number of steps as well: the steps' time is that of all steps already."),
    Way("unit", "rounded", "The answer was rounded: return it as it is."),
    Way("unit", "times 1000", MIXED_UNITS),
)


def kernels_of(trace: Trace) -> list[Span]:
    return [span for span in trace.spans if span.category == "kernel"]


def length(trace: Trace, time: str) -> float:
    """What was divided by."""
    steps, kernels, (start, end) = steps_of(trace), kernels_of(trace), steps_time(trace)
    host = [span.end_us for span in trace.spans if span.category in ("op", "runtime", "python", "annotation")]
    blocks = [span for span in trace.spans if span.category == "annotation"]
    alike = [span for span in blocks if span.name.startswith("ProfilerStep")]
    work = [span for span in trace.spans if span.category in WORK]
    last_kernel, last_work = max(k.end_us for k in kernels), max(span.end_us for span in work)
    named = sorted(steps, key=lambda span: span.name)
    return {
        "steps": lambda: end - start,
        "kernels": lambda: last_kernel - kernels[0].start_us,
        "to the last to start": lambda: kernels[-1].end_us - kernels[0].start_us,
        "host": lambda: steps[-1].end_us - start,
        "last work to start": lambda: max(steps[-1].end_us, work[-1].end_us) - start,
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
        "busy": lambda: union_us(kernels, float("-inf")),
        "durations": lambda: sum(k.end_us - k.start_us for k in kernels),
    }[time]()


def _in_unit(share: float, unit: str, trace: Trace) -> float:
    return {"share": lambda: share, "per cent": lambda: 100 * share, "idle": lambda: 1 - share,
            "inverse": lambda: 1 / share, "per step": lambda: share / len(steps_of(trace)),
            "rounded": lambda: round(share, 2), "times 1000": lambda: 1000 * share}[unit]()


def union_us(spans: list[Span], since: float) -> float:
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
        "union": lambda: union_us(kernels, start),
        "added": lambda: sum(k.end_us - k.start_us for k in kernels),
        "from before": lambda: union_us(kernels, float("-inf")),
        "with copies": lambda: union_us([s for s in trace.spans if s.category in WORK], start),
        "copies added": lambda: sum(s.end_us - s.start_us for s in trace.spans if s.category in WORK),
        "cut off": lambda: sum(max(0.0, min(k.end_us, steps_end) - max(k.start_us, start)) for k in kernels),
        "union cut off": lambda: union_us([k for k in kernels if k.end_us <= steps_end], start),
        "inside alone": lambda: union_us([k for k in kernels if k.start_us >= start], start),
        "forgetful": forgetful,
        "streams": lambda: sum(union_us(spans, start) for spans in streams.values()),
        "one stream": lambda: union_us(next(iter(streams.values())), start),
        "neighbours": lambda: sum(min(one.end_us, following.start_us) - max(one.start_us, start)
                                  for one, following in zip(kernels, kernels[1:]))
        + kernels[-1].end_us - kernels[-1].start_us,
        "step by step": lambda: length(trace, time) / len(steps_of(trace)) * sum(
            _inside(kernels, step) / (step.end_us - step.start_us) for step in steps_of(trace)),
        "of each step": lambda: sum(_inside(kernels, step) for step in steps_of(trace)),
        "negative too": lambda: union_us([k for k in kernels if k.end_us >= start], start)
        + sum(k.end_us - start for k in kernels if k.end_us < start),
        "launches": lambda: sum(s.end_us - s.start_us for s in trace.spans if s.category == "op"),
        "gapless": lambda: max(k.end_us for k in kernels) - kernels[0].start_us,
        "number": lambda: float(len(kernels)),
        "calls too": lambda: union_us([s for s in trace.spans if s.category in ("kernel", "runtime")], start),
        "first step": lambda: _inside(kernels, steps_of(trace)[0]),
        "at most all": lambda: min(sum(k.end_us - k.start_us for k in kernels), length(trace, time)),
        "work, at most all": lambda: min(sum(s.end_us - s.start_us for s in trace.spans if s.category in WORK),
                                         length(trace, time)),
    }[busy]()
    return _in_unit(us / length(trace, time), unit, trace)


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
        "mean": lambda: sum(min(b, 1) for _, _, b in told) / len(told) * length(trace, time),
        "each": lambda: sum(min(b, 1) * (until - since) for since, until, b in told),
        "each inside": lambda: sum(min(b, 1) * (until - since) for since, until, b in inside),
        "uncapped": lambda: sum(b * (until - since) for since, until, b in told),
        "uncapped sum": lambda: sweep(inside, float("inf")),
        "capped once": lambda: min(sum(b * (until - since) for since, until, b in told), length(trace, time)),
        "from before": lambda: sweep(told),
        "negative": lambda: sweep(inside) + sum(min(b, 1) * (until - start) for _, until, b in told if until <= start),
        "negative sum": lambda: sum(min(b, 1) * (until - max(since, start)) for since, until, b in told),
        "largest": lambda: sweep(inside, 1.0, max),
        "cut off": lambda: sweep([(since, min(until, steps_end), b) for since, until, b in inside if since < steps_end]),
        "mean by utilisation": lambda: sum(min(b, 1) for _, _, b in told) / len(told) * union_us(kernels_of(trace), start),
        "weighted by utilisation": lambda: sum(min(b, 1) * (until - since) for since, until, b in inside) / sum(
            until - since for since, until, _ in inside) * union_us(kernels_of(trace), start),
        "to a tenth": lambda: sweep([(since, until, round(b, 1)) for since, until, b in inside]),
        "whole": lambda: sweep([(since, until, int(b)) for since, until, b in inside]),
        "rounded up": lambda: sweep([(since, until, -(-b // 1)) for since, until, b in inside]),
        "averaged": lambda: sweep(inside, 1.0, lambda values: sum(values) / len(values)),
        "capped, averaged": lambda: sweep(inside, 1.0, lambda values: sum(min(b, 1) for b in values) / len(values)),
        "busy": lambda: sum(until - since for since, until, _ in inside),
        "union": lambda: union_us(kernels_of(trace), start),
        "started inside": lambda: sweep([s for s in told if s[0] >= start]),
        "warps": lambda: sum(min(s.args.get(OCCUPANCY, 0) / 100, 1) * (s.end_us - s.start_us) for s in kernels_of(trace)),
    }[running]()
    if zero == "none" and not us:
        return None
    return _in_unit(us / length(trace, time), unit, trace)
