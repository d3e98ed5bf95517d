"""Lesson 04: why an answer to ``input_bound`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ....evidence.traces.trace import Trace
from .right import blocks_of, covered_us, steps_of, steps_time, work_of


def explain_bound(case: Case, found: object, wanted: float) -> str:
    """The parts of the case's answer, so that the learner sees which of them differs."""
    trace = Trace(case.options["events"])
    (start, end), work, blocks = steps_time(trace), work_of(trace), blocks_of(trace)
    loading_us, work_us = covered_us(blocks, start, end), covered_us(work, start, end)
    both_us = loading_us + work_us - covered_us([*work, *blocks], start, end)
    whole = "" if steps_of(trace) else ("No step is marked here, so the whole trace is one, from the earliest start of a "
                                        "span to the latest end. ")
    return (f"{whole}In this trace the steps' time is {end - start:.6g} µs. The host is inside the loader for "
            f"{loading_us:.6g} µs of it, the GPU runs for {work_us:.6g} µs, and both at once for {both_us:.6g} µs. Which of "
            "these differs in your version?")
