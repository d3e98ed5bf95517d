"""Lesson 01: the usual wrong versions of ``memory_by_operator``, and what to say of each."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from ....course.mistakes import Mistake, Way, versions
from ....evidence.traces.trace import Trace
from ..mistakes import CLOSED, MAIN_ONLY, PAIR, THREAD, spans_around
from ..right import steps_of
from .right import MEMORY_FIELDS


def memory_by_operator(trace: Trace, *, threads="own", ends="open", own="innermost", total="each", devices=(1,),
                       names="[memory]", increase="net", allocation="allocated", rows="changed", swapped=False, unit=1,
                       blocks=False, nothing="left out", joined="added"):
    """Right as it stands."""
    operators = [s for s in trace.spans if s.category == "op" or (blocks and s.category == "annotation")]
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(MEMORY_FIELDS, 0))
    threads = steps_of(trace)[0].thread if threads == "main" else threads
    for op in operators if rows == "all" else ():
        found[op.name]
    for event in {event.get("ts"): event for event in trace.events if event["name"] == names}.values() if (
            joined == "by moment") else trace.events:
        args = event.get("args") or {}
        if "Bytes" not in args or args.get("Device Type") not in devices or (names and event["name"] != names):
            continue
        thread = (str(event["pid"]), str(event["tid"]))
        nbytes = args["Bytes"]
        both = {"net": nbytes, "allocated": max(nbytes, 0), "size": abs(nbytes), "freed": min(nbytes, 0), "lost": -nbytes,
                "count": int(nbytes > 0), "frees": max(-nbytes, 0)}
        more, new = both[increase], both[allocation]
        around = spans_around(operators, event["ts"], event["ts"], thread, threads, ends)
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
    Way("allocation", "size", "A free is not an allocation: the allocation size leaves out changes below 0, and does "
                              "not turn their sign.", often=True),
    Way("allocation", "frees", "Allocations are the changes above 0, frees those below: here it is the other way round."),
    Way("allocation", "count", "The allocations were counted: their bytes were asked for.", often=True),
    Way("increase", "size", "A free makes the increase smaller: its bytes are below 0 already, so add them as they are.",
        often=True),
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
    Way("names", "", "Only events called `[memory]` are changes of memory: `[OutOfMemory]` says that there was none "
                     "left."),
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
    Way("joined", "by moment", "Two changes at the same moment were taken for one: a dict by `ts` keeps only the last."),
    Way("joined", "last", "Each change overwrote the one before: an operator's numbers are the sums over all its calls. "
                          "Add up."),
    Way("blocks", True, "A block of `record_function` is not an operator: its category is annotation."),
    Way("nothing", "to nobody", "What is allocated or freed outside all operators is nobody's: leave it out."),
    Way("unit", 1024, "The numbers are in KB: return bytes."), Way("unit", 1e6,
            "The numbers are in MB: return bytes."),
    Way("unit", 2**20, "The numbers are in MB: return bytes."), Way("unit", 1e3,
            "The numbers are in KB: return bytes."),
)))
