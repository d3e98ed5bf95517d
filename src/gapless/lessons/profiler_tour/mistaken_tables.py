"""The tables of operators, memory and lines as learners get them wrong: which thread, which span around, what time."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from ...course.mistakes import Mistake, Way, versions
from ...evidence.trace import Span, Trace
from . import functions
from .functions import line_of
from .right import MEMORY_FIELDS, WORK, steps_of

THREAD = "Spans are nested only with those on their own thread: compare `span.thread`"
PAIR = (f"{THREAD}, the whole pair. The number of the thread alone (`tid`) is also that of a thread in another process, "
        "and the process alone that of all its threads.")
MAIN_ONLY = ("Only the main thread was looked at: the backward pass has operators on a thread of its own, which count as "
             "well, each with what happens on its own thread.")
CLOSED = ("What comes at the very end of an operator is no longer inside it: `op.start_us <= moment < op.end_us`, the end "
          "not included.")


def _threads_match(op: Span, thread: tuple, way: str | tuple) -> bool:
    if isinstance(way, tuple):  # only what is on that one thread
        return op.thread == thread == way
    return {"own": op.thread == thread, "any": True, "tid": op.thread[1] == thread[1],
            "process": op.thread[0] == thread[0]}[way]


def _around(spans: list[Span], at: float, until: float, thread: tuple, threads="own", ends="open") -> list[Span]:
    """The spans around a moment, outer before inner."""
    inside = {"open": lambda op: op.start_us <= at < op.end_us, "closed": lambda op: op.start_us <= at <= op.end_us,
              "both open": lambda op: op.start_us < at < op.end_us,
              "by its end": lambda op: op.start_us <= until <= op.end_us}[ends]
    return [op for op in spans if inside(op) and _threads_match(op, thread, threads)]


# -- operators ----------------------------------------------------------------------------------------


def top_operators(trace: Trace, k: int, *, time="device", threads="own", ends="open", own="innermost", total="each",
                  work="all", calls="calls", joined="added", spans="op", order="self", unit="us", rows="k",
                  numbered="correlation"):
    """Right as it stands."""
    operators = [s for s in trace.spans if s.category in (("op", "annotation") if spans == "blocks" else ("op",))]
    launches = [s for s in trace.spans if s.category == "runtime"]
    chosen = {"all": WORK, "kernels": ("kernel",), "no memsets": ("kernel", "memcpy")}[work]
    work_us: dict[object, float] = {}
    for span in trace.spans:
        if span.category in chosen:
            number = span.args.get(numbered)
            before = work_us.get(number, 0.0) if joined == "added" else 0.0
            if not (joined == "first" and number in work_us):
                work_us[number] = before + span.end_us - span.start_us
    found: dict[str, list] = {op.name: [0, 0.0, 0.0] for op in operators}
    threads = steps_of(trace)[0].thread if threads == "main" else threads
    for op in operators:
        found[op.name][0] += calls == "calls"
    moments: list[tuple[float, float, tuple, float]]
    if time == "device":
        moments = [(c.start_us, c.end_us, c.thread, work_us[c.args.get(numbered)]) for c in launches
                   if c.args.get(numbered) in work_us]
    else:  # by the time at which it runs on the GPU: no thread of the host's is meant
        moments = [(s.start_us, s.end_us, steps_of(trace)[0].thread, s.end_us - s.start_us) for s in trace.spans
                   if s.category in chosen]
    if time == "calls":
        moments = [(c.start_us, c.end_us, c.thread, c.end_us - c.start_us) for c in launches]
    if time == "host":
        moments = []
        for op in operators:
            found[op.name][1] += op.end_us - op.start_us
            found[op.name][2] += op.end_us - op.start_us
    for at, until, thread, us in moments:
        around = _around(operators, at, until, thread, threads, ends)
        names = [op.name for op in around]
        for name in names if total == "each" else dict.fromkeys(names):
            found[name][2] += us if total != "own" else 0.0
            found[name][0] += calls == "launches"
        selves = {"innermost": around[-1:], "the others'": around[-1:], "outermost": around[:1], "all": around,
                  "shared": around}[own]
        for op in selves:
            found[op.name][1] += us / (len(selves) if own == "shared" else 1)
            if total == "own":
                found[op.name][2] += us
    if own == "the others'":
        for row in found.values():
            row[1] = row[2] - row[1]
    if total == "without own":
        for row in found.values():
            row[2] -= row[1]
    if calls == "launching":
        found = {name: row for name, row in found.items() if row[2] > 0}
    scale = {"us": 1.0, "ms": 1e-3, "s": 1e-6, "mean": 1.0}[unit]
    table = [{"name": name, "calls": count, "device_self_us": self_us * (scale / max(count, 1) if unit == "mean" else scale),
              "device_total_us": total_us * (scale / max(count, 1) if unit == "mean" else scale)}
             for name, (count, self_us, total_us) in found.items()]
    if rows == "each call":
        table = _rows_of_calls(operators, moments)
    key = {"self": lambda r: -r["device_self_us"], "smallest": lambda r: r["device_self_us"],
           "total": lambda r: -r["device_total_us"], "calls": lambda r: -r["calls"], "name": lambda r: r["name"],
           "none": lambda r: 0}[order]
    return sorted(table, key=key)[:{"k": k, "all": None, "one more": k + 1, "one less": k - 1, "each call": k}[rows]]


def _rows_of_calls(operators: list[Span], moments: list[tuple]) -> list[dict]:
    table = {op: {"name": op.name, "calls": 1, "device_self_us": 0.0, "device_total_us": 0.0} for op in operators}
    for at, until, thread, us in moments:
        around = _around(operators, at, until, thread)
        for op in around:
            table[op]["device_total_us"] += us
        for op in around[-1:]:
            table[op]["device_self_us"] += us
    return list(table.values())


OPERATORS = versions(top_operators, (
    Way("time", "host", "That is the operators' time on the *host*. Asked for is the GPU's: the durations of the kernels, "
                        "copies and memsets that they launched."),
    Way("time", "calls", "That is the time of the runtime calls on the host: asked for are the durations of what they "
                         "launched."),
    Way("time", "kernels", "The operator is long over when its kernel runs: go from the kernel to the runtime call with "
                           "the same `correlation`, and to the operators around *that*."),
    Way("own", "all", "Self time is of what the operator launched itself: the work of an inner operator is the inner "
                      "one's.", often=True),
    Way("own", "outermost", "Self time belongs to the innermost operator around the call, not to the outermost: "
                            "`trace.spans` has outer before inner, so the last is the innermost.", often=True),
    Way("own", "the others'", "What inner operators launched was taken for the operator's own, and its own work left out: "
                              "it is the other way round."),
    Way("own", "shared", "The work was shared out among the operators around the call. All of it is the innermost's self "
                         "time, and all of it is in everybody's total."),
    Way("total", "own", "The total has to include what inner operators launched: add it to *every* operator around the "
                        "call.", often=True),
    Way("total", "without own", "The total was taken without the operator's own work: it includes both."),
    Way("total", "once", "Where an operator calls one of the same name, both count the inner one's work as their total: a "
                         "set of names, or a dict by name, counts it once."),
    Way("threads", "any", f"{THREAD}. The runtime call's thread is the one on which its operator is: look for operators on "
                          "its own thread.", often=True),
    Way("threads", "main", MAIN_ONLY), Way("threads", "tid", PAIR), Way("threads", "process", PAIR),
    Way("ends", "closed", CLOSED, often=True), Way("ends", "by its end", CLOSED),
    Way("ends", "both open", "What comes at the very start of an operator is inside it: `op.start_us <= moment < "
                             "op.end_us`."),
    Way("work", "kernels", "Copies and memsets are the GPU's work too: they count like kernels.", often=True),
    Way("work", "no memsets", "Copies and memsets are the GPU's work too: the memsets are missing."),
    Way("joined", "last", "One call may launch several kernels, which share its correlation: a dict that holds one kernel "
                          "for each keeps the last alone. Add up.", often=True),
    Way("joined", "first", "One call may launch several kernels, which share its correlation: only the first was counted. "
                           "Add up."),
    Way("spans", "blocks", "A block of `record_function` is no operator: its category is annotation."),
    Way("calls", "launches", "The launches were counted: `calls` is how often the operator ran, whatever it launched."),
    Way("calls", "launching", "An operator counts each time that it ran, also where it launched nothing."),
    Way("calls", "none", "`calls` is how often the operator ran: count one for each of its spans."),
    Way("order", "total", "The rows are in order of their total: the largest `device_self_us` comes first.", often=True),
    Way("order", "smallest", "The smallest comes first: The largest `device_self_us` comes first, so sort with "
                             "`reverse=True` or by the negative."),
    Way("order", "calls", "The rows are in order of their calls: the largest `device_self_us` comes first."),
    Way("order", "name", "The rows are in order of their names: the largest `device_self_us` comes first."),
    Way("order", "none", "The rows are not sorted: the largest `device_self_us` comes first."),
    Way("unit", "ms", "The times are in ms: µs are wanted (`end_us - start_us`; "
                      "`duration_ms` is a thousandth of it).", often=True),
    Way("unit", "s", "The times are in seconds: µs are wanted."),
    Way("unit", "mean", "The times are those of one call, on average: the sum over all calls is wanted."),
    Way("numbered", "External id", "`External id` is in some files the operator's number and in others something else: "
                                   "take `correlation`."),
    Way("rows", "all", "Return the first k rows alone.", often=True),
    Way("rows", "each call", "Each call has a row of its own here: one row for each *name*, with the sums over all its "
                             "calls."),
    Way("rows", "one more", "That is one row too many: `rows[:k]`."),
    Way("rows", "one less", "That is one row too few: `rows[:k]`."),
))


# -- memory -------------------------------------------------------------------------------------------


def memory_by_operator(trace: Trace, *, threads="own", ends="open", own="innermost", total="each", devices=(1,),
                       names="[memory]", increase="net", allocation="allocated", rows="changed", swapped=False, unit=1,
                       blocks=False, nothing="left out", joined="added"):
    """Right as it stands."""
    operators = [s for s in trace.spans if s.category == "op" or (blocks and s.category == "annotation")]
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(MEMORY_FIELDS, 0))
    threads = steps_of(trace)[0].thread if threads == "main" else threads
    for op in operators if rows == "all" else ():
        found[op.name]
    for event in trace.events:
        args = event.get("args") or {}
        if "Bytes" not in args or args.get("Device Type") not in devices or (names and event["name"] != names):
            continue
        thread = (str(event["pid"]), str(event["tid"]))
        nbytes = args["Bytes"]
        both = {"net": nbytes, "allocated": max(nbytes, 0), "size": abs(nbytes), "freed": min(nbytes, 0), "lost": -nbytes,
                "count": int(nbytes > 0), "frees": max(-nbytes, 0)}
        more, new = both[increase], both[allocation]
        around = _around(operators, event["ts"], event["ts"], thread, threads, ends)
        if total == "once":
            around = list({op.name: op for op in around}.values())
        if nothing == "to nobody" and not around:
            found["None"]["size_increase_bytes"] += more
        chosen = {"innermost": around[-1:], "outermost": around[:1], "all": around}[own]
        for op in around:
            mine = any(op is each for each in chosen)
            if total == "own" and not mine:
                continue
            if joined == "last":
                found.pop(op.name, None)
            row = found[op.name]
            row["size_increase_bytes"] += more
            row["allocation_bytes"] += new
            row["self_size_increase_bytes"] += more * mine
            row["self_allocation_bytes"] += new * mine
    if rows == "allocating":
        found = {name: row for name, row in found.items() if row["allocation_bytes"]}
    if rows == "positive":
        found = {name: row for name, row in found.items() if row["size_increase_bytes"] > 0}
    if rows == "increasing":
        found = {name: row for name, row in found.items() if row["size_increase_bytes"]}
    if not found:
        raise ValueError("nothing in it, which tells no mistake from another")
    if swapped:
        found = {name: {field: row[field.removeprefix("self_") if field.startswith("self_") else f"self_{field}"]
                        for field in MEMORY_FIELDS} for name, row in found.items()}
    return {name: {field: value if unit == 1 else value / unit for field, value in row.items()}
            for name, row in found.items()}


_AS_HANDED_OUT = Mistake(
    partial(memory_by_operator, threads="any", ends="closed", own="all", increase="allocated", devices=(0, 1)),
    "The function as handed out counts allocations alone, for every operator of any thread around the moment, as its total "
    "and as its own. Frees make the increase smaller, only the innermost operator has it as its own, and all of them are "
    "on the event's thread.")

MEMORY = (_AS_HANDED_OUT, *versions(memory_by_operator, (
    Way("own", "all", "Self leaves out what an inner operator allocates: only the innermost operator around the moment "
                      "counts it.", often=True),
    Way("own", "outermost", "Self belongs to the innermost operator around the moment, not to the outermost: `trace.spans` "
                            "has outer before inner, so the last is the innermost.", often=True),
    Way("total", "own", "What an inner operator allocates counts for the operators around it too: only the two `self_` "
                        "numbers leave it out.", often=True),
    Way("increase", "allocated", "A size increase is what was allocated minus what was freed: changes below 0 count there "
                                 "too.", often=True),
    Way("allocation", "net", "The allocation size counts allocations alone: leave out changes below 0.", often=True),
    Way("allocation", "size", "A free is no allocation: the allocation size leaves out changes below 0, and does not turn "
                              "their sign.", often=True),
    Way("allocation", "frees", "Allocations are the changes above 0, frees those below: here it is the other way round."),
    Way("allocation", "count", "The allocations were counted: their bytes were asked for.", often=True),
    Way("increase", "size", "A free makes the increase smaller: its bytes are below 0 already, so add them as they are."),
    Way("increase", "lost", "The sign is turned: `Bytes` is above 0 where memory was allocated."),
    Way("increase", "count", "The allocations were counted: their bytes were asked for.", often=True),
    Way("increase", "freed", "A size increase is what was allocated minus what was freed: only the frees were counted."),
    Way("threads", "any", f"{THREAD}. A change of memory is on the thread `(str(event[\"pid\"]), str(event[\"tid\"]))`, "
                          "and only operators of that thread are around it.", often=True),
    Way("threads", "main", MAIN_ONLY), Way("threads", "tid", PAIR), Way("threads", "process", PAIR),
    Way("ends", "closed", CLOSED, often=True),
    Way("ends", "both open", "What comes at the very start of an operator is inside it: `op.start_us <= moment < "
                             "op.end_us`."),
    Way("devices", (0, 1), "Only the GPU's memory counts (Device Type 1): here the host's was counted too.", often=True),
    Way("devices", (0,), "Device Type 1 is the GPU; 0 is the host, whose memory does not count."),
    Way("names", "", "Only events called `[memory]` are changes of memory: `[OutOfMemory]` says that there was none to be "
                     "had."),
    Way("total", "once", "Where an operator calls one of the same name, both count what the inner one does as their total: "
                         "a set of names, or a dict by name, counts it once."),
    Way("rows", "all", "An operator that neither allocated nor freed is left out.", often=True),
    Way("rows", "allocating", "An operator that only freed has changed memory too: it has a row, and its increase is below "
                              "0."),
    Way("rows", "positive", "An operator whose increase is 0 or below has a row too: it has freed."),
    Way("rows", "increasing", "An operator that freed as much as it allocated has a row too: its "
                              "allocation size is not 0."),
    Way("swapped", True, "The `self_` numbers and the others are the wrong way round: `self_` leaves out what inner "
                         "operators did."),
    Way("joined", "last", "Each change overwrote the one before: an operator's numbers are the sums over all its calls. "
                          "Add up."),
    Way("blocks", True, "A block of `record_function` is no operator: its category is annotation."),
    Way("nothing", "to nobody", "What is allocated or freed outside all operators is nobody's: leave it out."),
    Way("unit", 1024, "The numbers are in KB: bytes are wanted."), Way("unit", 1e6,
            "The numbers are in MB: bytes are wanted."),
    Way("unit", 2**20, "The numbers are in MB: bytes are wanted."), Way("unit", 1e3,
            "The numbers are in KB: bytes are wanted."),
)))


# -- sources ------------------------------------------------------------------------------------------


def source_of(trace: Trace, kernel_name: str, *, moment="launch", threads="own", own="innermost", else_="main",
              names="equal", unlaunched="left out", unit="us", frames="users", joined="added", ends="open",
              counts="time", rows="all"):
    """Right as it stands."""
    calls = {s.args.get("correlation"): s for s in trace.spans if s.category == "runtime"}
    python = [s for s in trace.spans if s.category == "python" and (frames == "all" or line_of(s))]
    main = {"main": steps_of(trace)[0].thread, "first": python[0].thread if python else (), "none": ()}.get(else_)
    lines: dict[str, float] = {}
    often: dict[str, int] = {}
    matches = {"equal": lambda name: name == kernel_name, "starts": lambda name: name.startswith(kernel_name),
               "contains": lambda name: kernel_name in name, "all": lambda name: True}[names]
    seen: set = set()
    for kernel in trace.spans:
        if kernel.category != "kernel" or not matches(kernel.name):
            continue
        number = kernel.args.get("correlation")
        call = calls.get(number)
        if call is None or (joined == "first" and number in seen):
            if call is None and unlaunched != "left out":
                lines[unlaunched] = lines.get(unlaunched, 0.0) + kernel.end_us - kernel.start_us
            continue
        seen.add(number)
        at = kernel.start_us if moment == "kernel" else call.start_us
        around = _around(python, at, call.end_us, call.thread, "any", ends)
        here = [frame for frame in around if _threads_match(frame, call.thread, threads)]
        if else_ == "any":
            here = here or around
        elif else_ == "main only":
            here = [frame for frame in around if frame.thread == steps_of(trace)[0].thread]
        else:
            here = here or [frame for frame in around if frame.thread == main]
        chosen = {"innermost": here[-1:], "outermost": here[:1], "all": here}[own]
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
    functions.source_of,
    "That is where the host is while the kernel *runs*, on any thread and in every frame. The line is the one at the "
    "moment of the *launch*: go from the kernel to the runtime call with the same correlation, and to the innermost line "
    "around that.")

SOURCES = (_WHILE_IT_RUNS, *versions(source_of, (
    Way("moment", "kernel", "That is where the host is while the kernel *runs*. The line is the one at the moment of the "
                            "*launch*: go from the kernel to the runtime call with the same correlation.", often=True),
    Way("own", "outermost", "Several frames around the launch give a line: the innermost is the one, not the line that "
                            "called it.", often=True),
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
    Way("counts", "mean", "That is the mean of the kernels that a line launched: the sum of their times is wanted."),
    Way("counts", "latency", "That is the time from the launch to the kernel's start: the kernel's own time, `end_us - "
                             "start_us`, was asked for."),
    Way("counts", "until it ends", "That is the time from the launch until the kernel ends: the kernel's own time, `end_us "
                                   "- start_us`, was asked for."),
    Way("counts", "frame", "That is the time of the Python frames on the host: the time of the kernels was asked for."),
    Way("rows", "largest", "Only the line with the most time is there: return every line that launched the kernel."),
    Way("counts", "host", "That is the time of the runtime calls on the host: the time of the kernels was asked for."),
    Way("unit", "ms", "The times are in ms: µs are wanted.", often=True), Way("unit", "s",
            "The times are in seconds: µs are wanted."),
    Way("unit", "share", "These are shares of the whole: µs are wanted."),
)))
