"""Lesson 09: ``find_straggler`` as learners get it wrong."""

from __future__ import annotations

from statistics import mean, median

from ....course.mistakes import Mistake, Way, versions
from ....evidence.ranks.straggler import straggler
from ....evidence.traces.trace import Trace
from ...data_loading.input_bound.right import covered_us
from . import slow
from .stage import RANK, WHY

_LOADER = "enumerate(DataLoader)#"


def _sum(spans) -> float:
    return sum(span.end_us - span.start_us for span in spans)


def _numbers(trace: Trace, blocks: str) -> dict[str, float]:
    """One rank's run in µs: what it computes, waits for input, communicates beside no kernel."""
    work = [span for span in trace.spans if span.category in ("kernel", "memcpy", "memset")]
    kernels = [span for span in work if span.category == "kernel"]
    nccl = [span for span in kernels if span.name.lower().startswith("nccl")]
    computing = [span for span in kernels if span not in nccl]
    loading = [span for span in trace.spans if span.category in ("annotation", "op") and span.name.startswith(_LOADER)]
    steps = [span for span in trace.spans if span.category in ("annotation", "op") and span.name.startswith("ProfilerStep#")]
    by = kernels if blocks == "beside kernels" else work
    start, end = min(span.start_us for span in steps), max(span.end_us for span in (*work, *steps))

    def covered(spans) -> float:
        return covered_us(spans, start, end)

    return {"compute": covered(computing), "summed": _sum(computing), "count": len(computing), "nccl": _sum(nccl),
            "exposed": covered([*nccl, *computing]) - covered(computing), "end": end, "time": end - start,
            "steps": max(span.end_us for span in steps) - start,
            "input": _sum(loading) if blocks == "whole" else covered([*by, *loading]) - covered(by)}


def find_straggler(traces, *, who="least exposed", even=0.05, network=0.2, why="more than others",
                   blocks="idle", compute="compute", groups=True, counted="exposed",
                   timed="time", middle=median):
    """Right as it stands."""
    rows = [_numbers(trace, blocks) for trace in traces]
    for row in rows:
        row["exposed"] = row[counted]
    key, best = {"least exposed": ("exposed", min), "most exposed": ("exposed", max), "most nccl": ("nccl", max),
                 "most compute": (compute, max), "most kernels": ("count", max), "most input": ("input", max),
                 "last end": ("end", max)}[who]
    late = rows.index(best(rows, key=lambda row: row[key]))
    own, others = rows[late], [row for place, row in enumerate(rows) if place != late] or rows
    time = median(row[timed] for row in rows)
    gap = middle(row["exposed"] for row in others) - own["exposed"]
    if who == "least exposed" and gap < even * time:
        if middle(row["exposed"] for row in rows) < network * time:
            return {RANK: None, WHY: None}
        found = straggler(dict(enumerate(traces))) if groups else None
        return {RANK: found.rank if found else None, WHY: "network"}
    more = {name: own[key] - middle(row[key] for row in others) for name, key in (("compute", compute), ("input", "input"))}
    if why == "largest":
        more = {"compute": own[compute], "input": own["input"]}
    elif why == "any input":
        more["compute"] = 0.0 if own["input"] > 0.01 * time else 1.0
    return {RANK: late, WHY: max(more, key=more.get)}


_WAITS = ("That is the rank that *waits* longest. NCCL's kernel starts when its own rank is there, and ends for all when "
          "the last one has come. So the late rank has the shortest kernel.")
_OVERLAP = ("Kernels on several streams overlap, and small ones have gaps between them. Join the intervals before you "
            "measure them, and do not count kernels.")
NAMINGS = (Mistake(slow.find_straggler, _WAITS), *versions(find_straggler, (
    Way("who", "most exposed", _WAITS),
    Way("who", "most nccl", _WAITS),
    Way("who", "most compute", (
        "The rank with the most work is not always late. If all ranks are alike, it is one of them by chance. If the "
        "input or the network is to blame, it is another. First find the rank that waits least for the others, and "
        "check that this is more than noise.")),
    Way("who", "most kernels", "The number of kernels says nothing: many small ones may take as long as a few large ones."),
    Way("who", "most input", (
        "Its loader takes longest, but the GPU may have enough work meanwhile. First find the rank that waits least for "
        "the others.")),
    Way("who", "last end", (
        "Clocks of different machines disagree, so you cannot compare a moment of one trace with one of another. "
        "Compare durations.")),
    Way("even", 0.0, (
        "One rank always waits least. If the others wait for it for less than a twentieth of the time, that is noise: "
        "no rank sets the pace.")),
    *(Way("even", share, "If the others wait for a rank for a twentieth of the time or more, it is late.")
      for share in (0.1, 0.2)),
    *(Way("network", share, (
        "No rank is late here, and all of them wait for the network for a fifth of the time or more. So the network sets "
        "the pace."))
      for share in (2.0, 0.4)),
    *(Way("network", share, (
        "Every run has some communication that nothing hides. Only from a fifth of the time on is it the network's fault."))
      for share in (0.0, 0.1)),
    Way("counted", "nccl", (
        "You count all of NCCL's time. The part beside kernels costs nothing. Count the part in which nothing computes, "
        "`covered(nccl + computing) - covered(computing)`.")),
    Way("groups", False, (
        "The ranks communicate in several groups here, and those of one rank take over 1.3 times as long. Compare "
        "groups by the median of equal collectives. A group with nothing to be compared with does not count. "
        "`span.args[\"Process Group Ranks\"]` is a text: read its numbers.")),
    Way("timed", "steps", (
        "The run's time ends with the last work on the GPU, which may be after the last step's span on the host.")),
    Way("middle", mean, "Compare with the ranks' median. One rank that differs much moves the mean."),
    Way("blocks", "whole", (
        "The loader's time on the host costs nothing while the GPU still has work. Count the part in which the GPU is "
        "idle.")),
    Way("blocks", "beside kernels", (
        "A copy (\"memcpy\") is work of the GPU too. While one runs, the GPU does not wait for input.")),
    Way("compute", "summed", _OVERLAP),
    Way("compute", "count", _OVERLAP),
    Way("why", "largest", (
        "Computing is most of every rank's time. Look at what the late rank has *more* of than the others.")),
    Way("why", "any input", (
        "Every rank spends some time in the loader. Look at what the late rank has *more* of than the others.")),
)))
