"""``input_bound`` as learners get it wrong: what counts as loading, as work, and what the sum is divided by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....course.mistakes import Mistake, Way, versions
from ....evidence.traces.steps import DEVICE_WORK
from ....evidence.traces.trace import Span, Trace
from . import slow
from .right import LOADER, blocks_of, covered_us, steps_of, steps_time, work_of

_SINGLE, _SEVERAL = f"{LOADER}_Single", f"{LOADER}_Multi"


def _blocks(trace: Trace, which: str) -> list[Span]:
    start, end = steps_time(trace)
    named = [span for span in trace.spans if span.name.startswith(LOADER)]
    on_host = [span for span in named if span.category in ("annotation", "op")]
    return {
        "right": lambda: blocks_of(trace),
        "any thread": lambda: on_host,
        "any row": lambda: named,
        "annotations": lambda: [span for span in blocks_of(trace) if span.category == "annotation"],
        "one process": lambda: [span for span in blocks_of(trace) if span.name.startswith(_SINGLE)],
        "workers": lambda: [span for span in blocks_of(trace) if span.name.startswith(_SEVERAL)],
        "within": lambda: [span for span in blocks_of(trace) if start <= span.start_us and span.end_us <= end],
        "starting within": lambda: [span for span in blocks_of(trace) if start <= span.start_us < end],
        "first": lambda: blocks_of(trace)[:1],
        "first thread": lambda: [span for span in blocks_of(trace) if span.thread == blocks_of(trace)[0].thread],
        "containing": lambda: _host_blocks(trace, lambda name: LOADER in name),
        "without the hash": lambda: _host_blocks(trace, lambda name: name.startswith(LOADER[:-2])),
        "two names": lambda: [span for span in blocks_of(trace) if span.name.startswith((_SINGLE, _SEVERAL))],
        "last": lambda: blocks_of(trace)[-1:],
        "but the first": lambda: blocks_of(trace)[1:],
        "in steps": lambda: blocks_of(trace) if steps_of(trace) else [],
    }[which]()


def _host_blocks(trace: Trace, named: Callable[[str], bool]) -> list[Span]:
    """As :func:`blocks_of`, with another condition for the name."""
    steps = steps_of(trace)
    return [span for span in trace.spans if span.category in ("annotation", "op") and named(span.name)
            and (not steps or span.thread == steps[0].thread)]


def _work(trace: Trace, which: str) -> list[Span]:
    work = work_of(trace)
    return {
        "right": lambda: work,
        "kernels": lambda: [span for span in work if span.category == "kernel"],
        "starting within": lambda: [span for span in work if span.start_us >= steps_time(trace)[0]],
        "no memset": lambda: [span for span in work if span.category != "memset"],
        "one stream": lambda: [span for span in work if span.thread == work[0].thread],
        "no copies from the host": lambda: [span for span in work if "HtoD" not in span.name],
        "launched in the blocks": lambda: _launched_in(blocks_of(trace), trace, work),
        "calls": lambda: [span for span in trace.spans if span.category == "runtime"],
        "host's too": lambda: [span for span in trace.spans if span.category in ("op", "runtime", *DEVICE_WORK)
                               and not span.name.startswith((LOADER, "ProfilerStep#"))],
    }[which]()


def _launched_in(blocks: list[Span], trace: Trace, work: list[Span]) -> list[Span]:
    launched = {call.args.get("correlation") for call in trace.spans if call.category == "runtime"
                and any(block.start_us <= call.start_us < block.end_us for block in blocks)}
    return [span for span in work if span.args.get("correlation") in launched]


def _overlap(one: Span, other: Span) -> float:
    return max(0.0, min(one.end_us, other.end_us) - max(one.start_us, other.start_us))


def _gaps(work: Sequence[Span], start: float, end: float) -> list[tuple[float, float]]:
    """The moments between the two at which nothing runs."""
    found, reached = [], start
    for span in work:
        if span.start_us > reached:
            found.append((reached, min(span.start_us, end)))
        reached = max(reached, span.end_us)
    return [*found, *([(reached, end)] if reached < end else [])]


def input_bound(trace: Trace, *, blocks="right", work="right", how="idle in blocks", time="steps", unit="share", empty=None):
    """Right as it stands."""
    start, end = steps_time(trace)
    found, running = _blocks(trace, blocks), _work(trace, work)
    if empty is not None and empty[0] == "no blocks" and not blocks_of(trace):
        return empty[1]
    if empty is not None and empty[0] == "no work" and not work_of(trace):
        return empty[1]
    if empty is not None and empty[0] == "no steps" and not steps_of(trace):
        return empty[1]

    def inside(block: Span) -> float:
        since, until = block.start_us, block.end_us
        return covered_us([*running, block], since, until) - covered_us(running, since, until)

    steps = steps_of(trace)
    us = {
        "idle in blocks": lambda: covered_us([*running, *found], start, end) - covered_us(running, start, end),
        "loading": lambda: sum(span.end_us - span.start_us for span in found),
        "loading, once": lambda: covered_us(found, start, end),
        "all idle": lambda: end - start - covered_us(running, start, end),
        "idle elsewhere": lambda: end - start - covered_us([*running, *found], start, end),
        "busy in blocks": lambda: covered_us(found, start, end) + covered_us(running, start, end)
        - covered_us([*running, *found], start, end),
        "block by block": lambda: sum(inside(block) for block in found),
        "work added up": lambda: covered_us(found, start, end) - sum(
            _overlap(block, span) for block in found for span in running),
        "uncut": lambda: covered_us([*running, *found], float("-inf"), float("inf")) - covered_us(
            running, float("-inf"), float("inf")),
        "whole blocks": lambda: sum(block.end_us - block.start_us for block in found
                                    if not any(_overlap(block, span) for span in running)),
        "by its start": lambda: sum(block.end_us - block.start_us for block in found
                                    if not any(span.start_us <= block.start_us < span.end_us for span in running)),
        "whole gaps": lambda: sum(until - since for since, until in _gaps(running, start, end)
                                  if any(block.start_us < until and block.end_us > since for block in found)),
        "gaps begun in blocks": lambda: sum(until - since for since, until in _gaps(running, start, end)
                                            if any(block.start_us <= since < block.end_us for block in found)),
        "until the first kernel": lambda: sum(
            max(0.0, min([block.end_us, *(s.start_us for s in running if s.start_us >= block.start_us)]) - block.start_us)
            for block in found),
        # As a share of each step's own time, and then their mean.
        "step by step": lambda: (end - start) * sum(
            covered_us([*running, *found], step.start_us, step.end_us) - covered_us(running, step.start_us, step.end_us)
            for step in steps) / sum(step.end_us - step.start_us for step in steps) if steps else 0.0,
        "mean of steps": lambda: (end - start) * sum(
            (covered_us([*running, *found], step.start_us, step.end_us) - covered_us(running, step.start_us, step.end_us))
            / (step.end_us - step.start_us) for step in steps) / len(steps) if steps else 0.0,
        "but the first": lambda: ((end - start) / (end - steps[1].start_us) * (
            covered_us([*running, *found], steps[1].start_us, end) - covered_us(running, steps[1].start_us, end))
            if len(steps) > 1 else 0.0),
        "less busy": lambda: max(0.0, covered_us(found, start, end) - covered_us(running, start, end)),
        "longest": lambda: max((inside(block) for block in found), default=0.0),
    }[how]()
    length = {
        "steps": lambda: end - start,
        "steps added": lambda: sum(step.end_us - step.start_us for step in steps),
        "first step": lambda: steps[0].end_us - steps[0].start_us,
        "with the GPU's": lambda: max([end, *(span.end_us for span in work_of(trace))]) - start,
        "trace": lambda: max(s.end_us for s in trace.spans) - min(s.start_us for s in trace.spans),
        "loader": lambda: covered_us(found, start, end),
        "idle": lambda: end - start - covered_us(running, start, end),
        "GPU's": lambda: work_of(trace)[-1].end_us - work_of(trace)[0].start_us,
        "steps by name": lambda: max(steps, key=lambda s: s.name).end_us - min(steps, key=lambda s: s.name).start_us,
        "any step": lambda: max(s.end_us for s in trace.spans if s.name.startswith("ProfilerStep"))
        - min(s.start_us for s in trace.spans if s.name.startswith("ProfilerStep")),
        "in ms": lambda: (end - start) / 1000,
        "busy": lambda: covered_us(running, start, end) or 1.0,
        "one": lambda: 1.0,
    }[time]()
    share = us / length
    return {"share": lambda: share, "per cent": lambda: 100 * share, "busy": lambda: 1 - share,
            "rounded": lambda: round(share, 2), "per step": lambda: share / len(steps), "inverse": lambda: 1 / share,
            "in ms": lambda: share / 1000, "verdict": lambda: share > 0.5}[unit]()


_HOST = ("That is the *host's* time in the loader. While the GPU still has work in its queue, the loader costs "
         "nothing: count "
         "only the part of a block in which nothing runs on the GPU.")
_OVERLAP = "Work that runs at the same time counts once, on two streams or in two nested blocks: merge first."
_THREAD = ("Another thread has its own loader here. It feeds something else: take the blocks on the thread of the "
           "`ProfilerStep#` blocks (`span.thread`).")
_CUT = ("A block crosses the first step's start or the last step's end: only the part within the steps' time counts.")
_NAMES = ("The loader's class is in the name: with workers it is `_MultiProcessingDataLoaderIter`, without "
          "`_SingleProcessDataLoaderIter`. All begin with `enumerate(DataLoader)#`.")
_BEGINS = ("A loader's block is recognised by the beginning of its name, `enumerate(DataLoader)#` with the `#`. What comes "
           "after that may be any class.")
_TIME = "Divide by the steps' time: from the first step's start to the last step's end, both on the host."
BOUNDS = (Mistake(slow.input_bound, _HOST), *versions(input_bound, (
    Way("how", "loading", _HOST, often=True),
    Way("how", "loading, once", _HOST, often=True),
    Way("how", "all idle", "That is all the time in which the GPU is idle. It is also idle if the host is slow to "
                           "launch, or has just waited: count only the part inside a loader's block.", often=True),
    Way("how", "idle elsewhere", "That is the idle time *outside* the loader's blocks: the cost of launches and waits."),
    Way("how", "busy in blocks", "That is the part of the blocks in which the GPU works: there the loader costs "
                                 "nothing. Return the other part."),
    Way("work", "kernels", "A copy or a memset is work of the GPU too: while one runs it is not idle. The categories are "
                           "kernel, memcpy and memset.", often=True),
    Way("work", "no memset", "A memset is work of the GPU too: the categories are kernel, memcpy and memset."),
    Way("work", "no copies from the host", "A copy to the device is work: it means that a batch *is* there."),
    Way("work", "one stream", "Only one stream was looked at: the GPU is idle when nothing runs on any of them."),
    Way("work", "launched in the blocks", "Only work that was *launched* in a block was looked at. What runs then was "
                                          "launched before: compare the times of kernels and blocks."),
    Way("work", "starting within", "Work from before the first step still runs when the step starts. Its part within the "
                                   "steps' time counts."),
    Way("work", "calls", "A runtime call is on the host: it says when something was launched, not when it ran."),
    Way("work", "host's too", "Operators are the host's. While the loader stacks a batch (`aten::stack`) the GPU may "
                              "well be idle: only kernel, memcpy and memset are its work."),
    Way("how", "work added up", _OVERLAP, often=True),
    Way("how", "block by block", _OVERLAP + " Here a block lies inside another, or reaches over the steps' time.",
        often=True),
    Way("how", "uncut", _CUT, often=True),
    Way("blocks", "within", _CUT),
    Way("blocks", "starting within", _CUT),
    Way("blocks", "first", "Only the first block was looked at: each step has one."),
    Way("blocks", "last", "Only the last block was looked at: each step has one."),
    Way("blocks", "but the first", "The first block was left out. The profiler handles the warm-up: everything in the "
                                   "trace counts."),
    Way("how", "whole blocks", "A block during which anything ran on the GPU was left out as a whole. Count the part of it "
                               "in which nothing ran."),
    Way("how", "by its start", "You decide by the moment at which the block starts. The GPU may finish its work in the "
                               "middle of the block: from then on it is idle."),
    Way("how", "whole gaps", "A gap was counted as a whole where a block touches it. After the block the host has a "
                             "batch, and "
                             "the rest of the gap is the launches': count the part within the block."),
    Way("how", "gaps begun in blocks", "A gap was counted as a whole if it begins in a block. Count the part within "
                                       "blocks."),
    Way("how", "until the first kernel", "It was counted from the block's start until the next work starts. Work that had "
                                         "started before may still run."),
    Way("how", "less busy", "All of the GPU's time was subtracted from the loader's. Subtract what runs during a block."),
    Way("how", "longest", "That is the longest block's part: add up all of them."),
    Way("how", "mean of steps", "That is the mean of the steps' shares: a short step counts as much as a long one, and "
                                "the time between two steps not at all. Add up over the whole, then divide once."),
    Way("how", "step by step", "The time between two steps was left out. It belongs to the steps' time: from the first "
                               "step's start to the last step's end."),
    Way("how", "but the first", "The first step was left out. The profiler handles the warm-up: everything in the trace "
                                "counts."),
    Way("blocks", "any thread", _THREAD, often=True),
    Way("blocks", "any row", "The profiler may repeat a block on the GPU's row (`gpu_user_annotation`, whose `category` is "
                             "\"other\"): that is not the host's time. Take the steps' thread."),
    Way("blocks", "annotations", "Older profilers write blocks as operators: `category` may be \"annotation\" or \"op\"."),
    Way("blocks", "one process", _NAMES),
    Way("blocks", "workers", _NAMES),
    *(Way("blocks", which, _BEGINS) for which in ("containing", "without the hash", "two names")),
    Way("blocks", "first thread", "Where no step is marked, the loader's blocks of all threads count."),
    Way("blocks", "in steps", "Where no step is marked, the whole trace counts as one, with its loader's blocks.",
        often=True),
    Way("time", "steps added", "The steps' durations were added up. Between two steps there is time too: " + _TIME),
    Way("time", "first step", "It was divided by the first step's time alone, and what is counted is of all steps. "
        + _TIME),
    Way("time", "with the GPU's", "The steps' time ends with the last step on the *host* here: while the GPU finishes "
                                  "its work, no batch is missing.", often=True),
    Way("time", "trace", _TIME + " The whole trace counts only where no step is marked.", often=True),
    Way("time", "loader", "It was divided by the time in the loader: that is the share *of the loader's time*. " + _TIME),
    Way("time", "idle", "It was divided by the GPU's idle time: that is the share of the idleness that is the loader's. "
        + _TIME),
    Way("time", "GPU's", _TIME),
    Way("time", "busy", "It was divided by the time in which the GPU works. " + _TIME),
    Way("time", "steps by name", "The steps were sorted by name, and as text \"#10\" comes before \"#9\": sort by time."),
    Way("time", "any step", "You took a block with a similar name for a step: a step's name starts with "
                            "`ProfilerStep#`, with the `#`."),
    Way("time", "in ms", "Numerator and denominator have different units: `duration_ms` is in ms, `start_us` and `end_us` "
                         "are in µs."),
    Way("time", "one", "That is in µs: divide by the steps' time."),
    Way("unit", "per cent", "A share is between 0 and 1, and this is in per cent."),
    Way("unit", "in ms", "Numerator and denominator have different units: one is in ms, the other in µs."),
    Way("unit", "busy", "That is 1 minus the right share."),
    Way("unit", "rounded", "You rounded the answer: return it as it is."),
    Way("unit", "per step", "It was divided by the number of steps as well: the steps' time is that of all steps already."),
    Way("unit", "verdict", "Return the share itself, not whether it is large."),
    Way("empty", ("no blocks", None), "There is no block of a loader, so the GPU never waits for a batch. The share is "
        "0.0."),
    Way("empty", ("no blocks", 1.0), "There is no block of a loader, so the GPU never waits for a batch. The share is "
        "0.0."),
    Way("empty", ("no work", None), "Nothing runs on the GPU at all: it is idle all the time, also in the loader's blocks."),
    Way("empty", ("no work", 0.0), "Nothing runs on the GPU at all: it is idle all the time, also in the loader's blocks."),
    Way("empty", ("no work", 1.0), "Nothing runs on the GPU at all: it is idle all the time, and in the loader's blocks for "
                                   "a part of it."),
    Way("empty", ("no steps", 0.0), "Where no step is marked, the whole trace counts as one, with its loader's blocks."),
)))
