"""Lesson 01: the usual wrong versions of ``source_of``, and what to say of each."""

from __future__ import annotations

from collections import Counter

from ....course.mistakes import Mistake, Way, versions
from ....evidence.traces.trace import Trace
from ..mistakes import PAIR, spans_around, threads_match
from ..right import steps_of
from ..stage import line_of
from . import slow


def source_of(trace: Trace, kernel_name: str, *, moment="launch", threads="own", own="innermost", else_="main",
              names="equal", unlaunched="left out", unit="us", frames="users", joined="added", ends="open",
              counts="time", rows="all", which="all"):
    """Right as it stands."""
    calls = {s.args.get("correlation"): s for s in trace.spans if s.category == "runtime"}
    python = [s for s in trace.spans if s.category == "python" and (frames == "all" or line_of(s))]
    main = {"main": steps_of(trace)[0].thread, "first": python[0].thread if python else (), "none": (),
            "busiest": Counter(call.thread for call in calls.values()).most_common(1)[0][0]}.get(else_)
    lines: dict[str, float] = {}
    often: dict[str, int] = {}
    matches = {"equal": lambda name: name == kernel_name, "starts": lambda name: name.startswith(kernel_name),
               "contains": lambda name: kernel_name in name, "all": lambda name: True}[names]
    seen: set = set()
    kernels = [span for span in trace.spans if span.category == "kernel" and matches(span.name)]
    if which == "by start":
        kernels = list({kernel.start_us: kernel for kernel in kernels}.values())
    if which == "by length":
        kernels = list({kernel.duration_ms: kernel for kernel in kernels}.values())
    for kernel in kernels[:1] if which == "first" else kernels:
        number = kernel.args.get("correlation")
        call = calls.get(number)
        if which == "first step" and call is not None and call.start_us >= steps_of(trace)[0].end_us:
            continue
        if call is None or (joined == "first" and number in seen):
            if call is None and unlaunched != "left out":
                lines[unlaunched] = lines.get(unlaunched, 0.0) + kernel.end_us - kernel.start_us
            continue
        seen.add(number)
        at = kernel.start_us if moment == "kernel" else call.start_us
        around = spans_around(python, at, call.end_us, call.thread, "any", ends)
        here = [frame for frame in around if threads_match(frame, call.thread, threads)]
        if else_ == "any":
            here = here or around
        elif else_ == "main only":
            here = [frame for frame in around if frame.thread == steps_of(trace)[0].thread]
        else:
            here = here or [frame for frame in around if frame.thread == main]
        chosen = {"innermost": here[-1:], "outermost": here[:1], "all": here,
                  "latest": sorted(here, key=lambda frame: -frame.start_us)[:1]}[own]
        if not chosen and unlaunched != "left out":
            lines[unlaunched] = lines.get(unlaunched, 0.0) + kernel.end_us - kernel.start_us
        for frame in chosen:
            line = line_of(frame) or frame.name
            us = {"time": kernel.end_us - kernel.start_us, "number": 1.0, "host": call.end_us - call.start_us,
                  "mean": kernel.end_us - kernel.start_us, "latency": kernel.start_us - call.start_us,
                  "until it ends": kernel.end_us - call.start_us, "frame": frame.end_us - frame.start_us}[counts]
            often[line] = often.get(line, 0) + 1
            lines[line] = (0.0 if joined == "last" else lines.get(line, 0.0)) + us
    if not lines:
        raise ValueError("nothing in it, which tells no mistake from another")
    scale = {"us": 1.0, "ms": 1e-3, "s": 1e-6, "share": 1 / (sum(lines.values()) or 1)}[unit]
    if rows == "largest":
        lines = dict(sorted(lines.items(), key=lambda item: -item[1])[:1])
    return {line: us * scale / (often.get(line, 1) if counts == "mean" else 1) for line, us in lines.items()}


_WHILE_IT_RUNS = Mistake(
    slow.source_of,
    "That is where the host is while the kernel *runs*, on any thread and in every frame. The line is the one at the "
    "moment of the *launch*: go from the kernel to the runtime call with the same correlation, and to the innermost line "
    "around that.")
SOURCES = (_WHILE_IT_RUNS, *versions(source_of, (
    Way("moment", "kernel", "That is where the host is while the kernel *runs*. The line is the one at the moment of the "
                            "*launch*: go from the kernel to the runtime call with the same correlation.", often=True),
    Way("own", "outermost", "Several frames around the launch give a line: the innermost is the one, not the line that "
                            "called it.", often=True),
    Way("own", "latest", "Two frames may start at the same moment, and the inner one is the shorter: it stands last in "
                         "`trace.spans`. The latest start does not tell them apart."),
    Way("own", "all", "Each kernel counts for one line: of the frames around its launch that "
                      "give a line, the innermost.", often=True),
    Way("frames", "all", "A frame of PyTorch's is not the user's line: `line_of` gives None for it. Go outwards to the "
                         "next that gives a line."),
    Way("else_", "none", "The backward pass launches from a thread without Python frames: then take the innermost line of "
                         "the thread that has the `ProfilerStep#` blocks, at the moment of the launch.", often=True),
    Way("else_", "main only", "The launching thread has a line of its own here, since this backward pass is written in "
                              "Python. Look there first, and at the thread of the `ProfilerStep#` blocks only where there "
                              "is none."),
    Way("else_", "first", "The main thread is the one that has the `ProfilerStep#` blocks. The first Python frame of a "
                          "trace may be of another: here of a loader's."),
    Way("else_", "busiest", "The main thread is the one that has the `ProfilerStep#` blocks. Another thread may launch "
                            "more: here the backward pass does."),
    Way("else_", "any", "Where the launching thread has no line, not any other thread will do: take the one that has the "
                        "`ProfilerStep#` blocks. Another Python thread runs meanwhile."),
    Way("threads", "any", "Another thread of Python has lines at that moment too: look at the launch's own thread "
                          "(`call.thread`) first, and else at that of the `ProfilerStep#` blocks.", often=True),
    Way("threads", "tid", PAIR), Way("threads", "process", PAIR),
    Way("names", "starts", "Other kernels have a name that starts with this one: compare whole names, with `==`."),
    Way("names", "contains", "Other kernels have a name that contains this one: compare "
                             "whole names, with `==`.", often=True),
    Way("names", "all", "All kernels were counted: only those called `kernel_name`."),
    Way("unlaunched", "None", "A kernel whose launch is not in the trace has no line: leave it out.", often=True),
    Way("unlaunched", "unknown", "A kernel whose launch is not in the trace has no line: leave it out."),
    Way("unlaunched", "", "A kernel whose launch is not in the trace has no line: leave it out."),
    Way("joined", "last", "A line that launches the kernel several times has the sum of their times: here each overwrote "
                          "the one before. Add up.", often=True),
    Way("joined", "first", "One call may launch several kernels: all of them count, with their own times."),
    Way("counts", "number", "The launches were counted: the µs that the kernels took were asked for."),
    Way("counts", "mean", "That is the mean of the kernels that a line launched: return the sum of their times."),
    Way("counts", "latency", "That is the time from the launch to the kernel's start: the kernel's own time, `end_us - "
                             "start_us`, was asked for."),
    Way("counts", "until it ends", "That is the time from the launch until the kernel ends: the kernel's own time, `end_us "
                                   "- start_us`, was asked for."),
    Way("counts", "frame", "That is the time of the Python frames on the host: the time of the kernels was asked for."),
    Way("which", "first", "Only one launch of the kernel was counted: it is launched again and again, and all count."),
    Way("which", "first step", "Only what the first step launched was counted: count the kernels of all steps."),
    Way("which", "by start", "Kernels that start at the same moment were taken for one: a dict by `start_us` keeps the last "
                             "of them alone."),
    Way("which", "by length", "Kernels that take equally long were taken for one: a set of times holds each once. Add them "
                              "up as they come."),
    Way("rows", "largest", "Only the line with the most time is there: return every line that launched the kernel."),
    Way("counts", "host", "That is the time of the runtime calls on the host: the time of the kernels was asked for."),
    Way("unit", "ms", "The times are in ms: return µs.", often=True), Way("unit", "s",
            "The times are in seconds: return µs."),
    Way("unit", "share", "These are shares of the whole: return µs."),
)))
