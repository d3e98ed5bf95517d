"""The profiled steps of a trace, and the device's work that each of them launched."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from .trace import Span

DEVICE_WORK = ("kernel", "memcpy", "memset")  # categories of spans


class Steps:
    """The profiled steps on the host, in order of time, each counted once."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans: list[Span] = []
        ends_by_name: dict[str, float] = {}
        for span in spans:
            if span.category not in ("annotation", "op") or not span.name.startswith("ProfilerStep#"):
                continue
            # The same step may be noted on several threads.
            if span.start_us >= ends_by_name.get(span.name, float("-inf")):
                ends_by_name[span.name] = span.end_us
                self.spans.append(span)
        self._starts_us = [span.start_us for span in self.spans]

    def __len__(self) -> int:
        return len(self.spans)

    def at(self, time_us: float) -> int | None:
        """The index of the innermost step at a time, or None between steps."""
        for index in range(bisect_right(self._starts_us, time_us) - 1, -1, -1):
            if time_us < self.spans[index].end_us:
                return index
        return None

    def host_ms(self, spans: Iterable[Span]) -> float:
        """The median step on the host, or all the host's time where there are no steps."""
        if self.spans:
            return statistics.median(span.duration_ms for span in self.spans)
        return extent_ms([s for s in spans if s.category in ("op", "runtime", "annotation", "python")])


def launches_by_correlation(spans: Iterable[Span]) -> dict[object, Span]:
    """The runtime call behind each correlation number."""
    return {
        span.args["correlation"]: span
        for span in spans
        if span.category == "runtime" and span.args.get("correlation") is not None
    }


def work_in_steps(
    spans: Iterable[Span], steps: Steps, launches: dict, chosen: Sequence[int] | None = None
) -> list[Span]:
    """The device's work that the steps launched (those ``chosen``, else all), in order of time.

    Without steps, all the work.
    """
    work = [span for span in spans if span.category in DEVICE_WORK]
    if not len(steps):
        return work
    linked = [(span, launches.get(span.args.get("correlation"))) for span in work]
    if not any(launch for _, launch in linked):
        # A trace without runtime calls: the device's own times are the best there is.
        linked = [(span, span) for span in work]
    wanted = set(range(len(steps)) if chosen is None else chosen)
    return [span for span, launch in linked if launch and steps.at(launch.start_us) in wanted]


def union_ms(spans: Iterable[Span]) -> float:
    """The time that at least one of the spans covers; spans in order of time."""
    total_us, reached_us = 0.0, float("-inf")
    for span in spans:
        total_us += max(0.0, span.end_us - max(span.start_us, reached_us))
        reached_us = max(reached_us, span.end_us)
    return total_us / 1000.0


def extent_ms(spans: Sequence[Span]) -> float:
    """The time from the first span's start to the last one's end; 0 without spans."""
    if not spans:
        return 0.0
    return (max(span.end_us for span in spans) - min(span.start_us for span in spans)) / 1000.0
