"""Why an answer in lesson 01 is wrong: the usual mistakes are computed, and recognised by what they give."""

from __future__ import annotations

from ...course.evidence import Case
from ...evidence import views
from ...evidence.trace import Trace
from .cases import trace_of
from .right import WORK, idle_evidence, steps_of, steps_time
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS

EARLY = "A kernel runs before the first step begins: only what lies within the steps' time counts."


def _near(found, value) -> bool:
    return isinstance(found, float | int) and value is not None and abs(found - value) <= 1e-4 * max(abs(value), 1e-9)


def _say(found, suspects: list[tuple[object, str]], otherwise: str) -> str:
    return next((text for value, text in suspects if _near(found, value)), otherwise)


def utilization(case: Case, found, wanted) -> str:
    trace = trace_of(case)
    kernels = [span for span in trace.spans if span.category == "kernel"]
    if not kernels:
        return "The trace has no kernel: None says that there is nothing to tell."
    work = [span for span in trace.spans if span.category in WORK]
    (start_us, end_us), steps = steps_time(trace), steps_of(trace)
    union_us = wanted * (end_us - start_us)
    sum_us = sum(span.end_us - span.start_us for span in kernels)
    extent_us = max(span.end_us for span in kernels) - kernels[0].start_us
    host_us = steps[-1].end_us - start_us
    inside_us = sum(max(0.0, min(s.end_us, steps[-1].end_us) - s.start_us) for s in kernels)
    before_us = max(0.0, start_us - min(s.start_us for s in kernels))
    with_copies = views.gpu_utilization(Trace([{**event, "cat": "kernel"} if event["cat"] in ("gpu_memcpy", "gpu_memset")
                                               else event for event in case.options["events"]]))
    return _say(found, [
        (union_us / extent_us, "The steps begin before the first kernel: divide by the steps' time."),
        (sum_us / (end_us - start_us), "Durations were added up: kernels that run at the same time count once. Merge the "
                                       "intervals first."),
        (sum_us / extent_us, "Kernels that run at the same time count once, and the idle time before the first and after "
                             "the last kernel belongs to the steps too."),
        ((union_us + before_us) / (end_us - start_us), EARLY),
        (union_us / host_us, "The host's steps end before the GPU's work: the steps' time ends with the later of both."),
        (inside_us / host_us, "Kernels that run on after the last step were cut off: the steps' time goes on with them."),
        (with_copies, "Copies do not count as kernels."),
        (sum(s.end_us - s.start_us for s in work) / (end_us - start_us), "Copies do not count as kernels."),
        (100 * wanted, "A share is between 0 and 1."),
    ], "Print the merged intervals and the two ends of the steps' time for the trace of the lesson, and compare with the "
       "timeline picture.")


def efficiency(case: Case, found, wanted) -> str:
    trace = trace_of(case)
    kernels = [span for span in trace.spans if span.category == "kernel"]
    told = [span for span in kernels if "blocks per SM" in span.args]
    if wanted is None:
        return "No kernel tells its blocks per SM: None says so."
    (start_us, end_us), each = steps_time(trace), [(s.args["blocks per SM"], s.end_us - s.start_us) for s in told]
    before_us = sum(min(s.args["blocks per SM"], 1) * max(0.0, start_us - s.start_us) for s in told)
    return _say(found, [
        (sum(min(b, 1) for b, _ in each) / len(each), "That is the plain mean: a kernel of 2 µs counts as much as one of "
                                                      "2 ms. Weight by time."),
        (sum(min(b, 1) * us for b, us in each) / sum(us for _, us in each),
         "That is the mean over the kernels' time. Idle time counts here, as 0: divide by the steps' time."),
        (sum(min(b, 1) * us for b, us in each) / (end_us - start_us),
         "Kernels run at the same time in this trace: add their blocks per SM first, then take at most 1 of the sum."),
        (wanted + before_us / (end_us - start_us), EARLY),
        (sum(b * us for b, us in each) / (end_us - start_us), "No SM is more than busy: at most 1 at any moment."),
        (100 * wanted, "A share is between 0 and 1."),
    ], "Cut the steps' time at every begin and end of a kernel. Between two cuts nothing changes: add up the blocks per "
       "SM of the kernels running, at most 1, times the length.")


def occupancy(case: Case, found, wanted) -> str:
    if wanted is None:
        return "No kernel tells its occupancy: None says so."
    trace = trace_of(case)
    told = [(s.args["est. achieved occupancy %"] / 100, s.end_us - s.start_us) for s in trace.spans
            if s.category == "kernel" and "est. achieved occupancy %" in s.args]
    start_us, end_us = steps_time(trace)
    weighted = sum(o * us for o, us in told)
    return _say(found, [
        (sum(o for o, _ in told) / len(told), "That is the plain mean: weight each kernel by its duration."),
        (100 * wanted, "The trace has whole per cent; a share is between 0 and 1."),
        (weighted / (end_us - start_us), "Idle time does not count here: divide by the time of the kernels."),
        (weighted / sum(s.end_us - s.start_us for s in trace.spans if s.category == "kernel"),
         "Kernels that do not tell their occupancy were counted as 0: leave them out, their time too."),
    ], "Sum of occupancy times duration, by the sum of the durations, over the kernels that tell.")


def operators(case: Case, found, wanted) -> str:
    if not isinstance(found, list) or not all(isinstance(row, dict) and "device_self_us" in row for row in found):
        return "Return a list of dicts with name, calls, device_self_us and device_total_us."
    if len(found) > case.options["k"]:
        return "Return the first k rows alone."
    own = [row["device_self_us"] for row in found]
    if all(isinstance(us, float | int) for us in own) and own != sorted(own, reverse=True):
        return "The largest `device_self_us` comes first."
    table = {row.name: row for row in views.top_operators(trace_of(case), None)}
    bare = Trace([event for event in case.options["events"] if event["cat"] not in ("gpu_memcpy", "gpu_memset")])
    kernels_only = {row.name: row for row in views.top_operators(bare, None)}
    for row in found:
        right = table.get(str(row.get("name")))
        if right is None:
            return "A block of `record_function` is no operator: its category is annotation."
        if _near(row["device_self_us"], right.device_total_us) and not _near(right.device_self_us, right.device_total_us):
            return "Self time is of what the operator launched itself: the work of an inner operator is the inner one's."
        if not _near(row["device_self_us"], right.device_self_us) \
                and _near(row["device_self_us"], kernels_only[right.name].device_self_us):
            return "Copies and memsets are the GPU's work too: they count like kernels."
    return ("From a kernel (or copy, or memset) to the runtime call with the same correlation, and to the operators around "
            "that call on its own thread. The operator is long over when the kernel runs.")


def memory(case: Case, found, wanted) -> str:
    if not isinstance(found, dict):
        return "Return a dict: operator's name → its four numbers."
    for name, row in wanted.items():
        own = found.get(name)
        if not isinstance(own, dict):
            continue
        if own.get("size_increase_bytes") == row["allocation_bytes"] != row["size_increase_bytes"]:
            return "A size increase is what was allocated minus what was freed: changes below 0 count there too."
        if own.get("self_allocation_bytes") == row["allocation_bytes"] != row["self_allocation_bytes"]:
            return ("Self leaves out what an inner operator allocates: "
                    "only the innermost operator around the moment counts it.")
        if own.get("allocation_bytes") == row["size_increase_bytes"] != row["allocation_bytes"]:
            return "The allocation size counts allocations alone: leave out changes below 0."
    extra = [row for name, row in found.items() if name not in wanted]
    if extra and all(isinstance(row, dict) and not any(row.values()) for row in extra):
        return "An operator that neither allocated nor freed is left out."
    return ("Only the GPU's memory counts (Device Type 1), and only operators of the thread that the change is on; "
            "what is freed between operators is nobody's.")


def source(case: Case, found, wanted) -> str:
    if not isinstance(found, dict):
        return "Return a dict: line → µs."
    extra = [line for line in found if line not in wanted]
    if "None" in found or None in found or "" in found:
        return "A kernel whose launch is not in the trace has no line: leave it out."
    if any("torch/" in str(line) for line in extra):
        return "A frame of PyTorch's is not the user's line: `line_of` gives None for it. Go outwards to the next."
    if any("loader.py:9" in str(line) for line in extra):
        return ("The main thread is the one that has the `ProfilerStep#` blocks. The first Python frame of a trace may "
                "be of another: here of a loader's.")
    if any("loop.py:18" in str(line) for line in extra):
        return "Several frames around the launch give a line: the innermost is the one, not the line that called it."
    if "train/layers.py:40" in wanted and "train/layers.py:40" not in found:
        return ("The launching thread has a line of its own here, since this backward pass is written in Python. Look there "
                "first, and at the thread of the `ProfilerStep#` blocks only where there is none.")
    if set(wanted) - set(found) and any("loop.py:20" in line for line in wanted):
        return ("The backward pass launches from a thread without Python frames: then take the innermost line of the thread "
                "that has the `ProfilerStep#` blocks, at the moment of the launch.")
    return ("The line is the one at the moment of the *launch*, not of the kernel: go from the kernel to the runtime call "
            "with the same correlation, and to the innermost line around that.")


def batch(case: Case, found, wanted) -> str:
    table = {int(batch): row for batch, row in case.options["table"].items()}
    fits = {batch: row for batch, row in table.items() if row is not None}
    speeds = {batch: batch / row["step_ms"] for batch, row in fits.items()}
    facts = ", ".join(f"{batch}: {speeds[batch] * 1e3:.0f} a second" if batch in fits else f"{batch}: out of memory"
                      for batch in sorted(table))
    if type(found) is not int or found not in fits:
        return f"Samples by batch size: {facts}."
    near = f"{wanted} reaches {speeds[wanted] / max(speeds.values()):.0%} of the best"
    if found == max(fits, key=lambda batch: fits[batch]["gpu_utilization"]):
        why = f"It has the highest GPU utilisation, and that is not the speed; {near}. "
    elif found == max(speeds, key=speeds.get):
        why = f"It is the fastest, but {near} already. "
    elif found == max(fits):
        why = f"It is the largest that fits; {near} already. "
    else:
        why = f"{near[:1].upper()}{near[1:]}. "
    return f"{why}Samples by batch size: {facts}."


def idle(case: Case, found, wanted) -> str:
    labels = (SMALL_BATCH, SMALL_KERNELS, SLOW_LOADER)
    if found not in labels:
        return f"Return one of {', '.join(map(repr, labels))}."
    trace = trace_of(case)
    launching, filled = idle_evidence(trace)
    if launching < 0.5:
        verdict = "For most of the time it does something else, and the GPU has nothing to do; an " \
                  "operator that launches nothing is no work for it either."
    elif filled < 0.5:
        verdict = "So the host launches as fast as it can, and its kernels are too small to fill the card."
    else:
        verdict = "So the host launches as fast as it can, and its kernels fill the card, but are over too soon."
    return (f"The evidence: in {launching:.0%} of the steps' time the host is in an operator that launches work; while a "
            f"kernel runs, {filled:.0%} of the SMs have a block. {verdict}")
