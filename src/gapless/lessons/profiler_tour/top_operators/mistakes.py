"""Lesson 01: the usual wrong versions of ``top_operators``, and what to say of each."""

from __future__ import annotations

from ....course.mistakes import Way, versions
from ....evidence.traces.trace import Span, Trace
from ..mistakes import CLOSED, MAIN_ONLY, PAIR, THREAD, spans_around
from ..right import WORK, steps_of


def top_operators(trace: Trace, k: int, *, time="device", threads="own", ends="open", own="innermost", total="each",
                  work="all", calls="calls", joined="added", spans="op", order="self", unit="us", rows="k",
                  numbered="correlation", steps="all"):
    """Right as it stands."""
    operators = [s for s in trace.spans if s.category in (("op", "annotation") if spans == "blocks" else ("op",))]
    launches = [s for s in trace.spans if s.category == "runtime"]
    if steps == "first":
        end_us = steps_of(trace)[0].end_us
        operators, launches = ([span for span in spans if span.start_us < end_us] for spans in (operators, launches))
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
        found[op.name][0] += calls in ("calls", "launching")
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
        around = spans_around(operators, at, until, thread, threads, ends)
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
    table = table[:k] if rows == "cut first" else table
    return sorted(table, key=key)[:{"all": None, "one more": k + 1, "one less": k - 1}.get(rows, k)]


def _rows_of_calls(operators: list[Span], moments: list[tuple]) -> list[dict]:
    table = {op: {"name": op.name, "calls": 1, "device_self_us": 0.0, "device_total_us": 0.0} for op in operators}
    for at, until, thread, us in moments:
        around = spans_around(operators, at, until, thread)
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
    Way("time", "kernels", "The operator has long returned when its kernel runs: go from the kernel to the runtime call "
                           "with the same `correlation`, and to the operators around *that*."),
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
                          "for each keeps only the last. Add up.", often=True),
    Way("joined", "first", "One call may launch several kernels, which share its correlation: only the first was counted. "
                           "Add up."),
    Way("steps", "first", "Only the first step was looked at: the operators of all steps count."),
    Way("spans", "blocks", "A block of `record_function` is not an operator: its category is annotation."),
    Way("calls", "launches", "The launches were counted: `calls` is how often the operator ran, whatever it launched."),
    Way("calls", "launching", "An operator that launches nothing has a row too, with its calls and with 0 µs."),
    Way("calls", "none", "`calls` is how often the operator ran: count one for each of its spans."),
    Way("rows", "cut first", "The rows were cut before they were sorted: sort all of them first, then take `[:k]`."),
    Way("order", "total", "The rows are in order of their total: the largest `device_self_us` comes first.", often=True),
    Way("order", "smallest", "The smallest comes first: The largest `device_self_us` comes first, so sort with "
                             "`reverse=True` or by the negative."),
    Way("order", "calls", "The rows are in order of their calls: the largest `device_self_us` comes first."),
    Way("order", "name", "The rows are in order of their names: the largest `device_self_us` comes first."),
    Way("order", "none", "The rows are not sorted: the largest `device_self_us` comes first."),
    Way("unit", "ms", "The times are in ms: return µs (`end_us - start_us`; `duration_ms` is a thousandth of "
                      "it).", often=True),
    Way("unit", "s", "The times are in seconds: return µs."),
    Way("unit", "mean", "The times are those of one call, on average: return the sum over all calls."),
    Way("numbered", "External id", "`External id` is in some files the operator's number and in others something else: "
                                   "take `correlation`."),
    Way("rows", "all", "Return only the first k rows.", often=True),
    Way("rows", "each call", "Each call has a row of its own here: make one row for each *name*, with the sums over all its "
                             "calls."),
    Way("rows", "one more", "That is one row too many: `rows[:k]`."),
    Way("rows", "one less", "That is one row too few: `rows[:k]`."),
))
