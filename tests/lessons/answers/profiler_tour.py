"""Lesson 01: right answers that are not what the reference solution does, and wrong ones with what is said of them."""

import collections
import operator
import statistics

import torch

from gapless.lessons.profiler_tour.stage import line_of

from .profiler_tour_students import STUDENTS

WORK = ("kernel", "memcpy", "memset")


def steps_of(trace):
    return [span for span in trace.spans if span.category == "annotation" and span.name.startswith("ProfilerStep#")]


def bounds(trace):
    steps = steps_of(trace)
    return steps[0].start_us, max(span.end_us for span in trace.spans if span.category in WORK or span in steps)


def kernels_of(trace):
    return [span for span in trace.spans if span.category == "kernel"]


# -- right ------------------------------------------------------------------------------------------


def idle_subtracted(trace):
    """All the time, less the gaps."""
    if not kernels_of(trace):
        return None
    begin, end = reached, _ = bounds(trace)
    gaps = 0.0
    for span in kernels_of(trace):
        gaps += max(0.0, span.start_us - reached)
        reached = max(reached, span.end_us)
    return 1 - (gaps + end - reached) / (end - begin)


def counted_by_changes(trace):
    changes = collections.Counter()
    for span in kernels_of(trace):
        changes[max(span.start_us, bounds(trace)[0])] += 1
        changes[span.end_us] -= 1
    if not changes:
        return None
    running, busy, before = 0, 0.0, 0.0
    for at in sorted(changes):
        busy += (at - before) * (running > 0)
        running, before = running + changes[at], at
    begin, end = bounds(trace)
    return busy / (end - begin)


def efficiency_between_cuts(trace):
    told = [(max(s.start_us, bounds(trace)[0]), s.end_us, s.args["blocks per SM"])
            for s in kernels_of(trace) if "blocks per SM" in s.args]
    if not told:
        return None
    cuts = sorted({at for start, end, _ in told for at in (start, end)})
    area = sum(min(1.0, sum(b for start, end, b in told if start <= left and right <= end)) * (right - left)
               for left, right in zip(cuts, cuts[1:]))
    begin, end = bounds(trace)
    return area / (end - begin)


def occupancy_with_torch(trace):
    told = [(s.args["est. achieved occupancy %"], s.duration_ms) for s in kernels_of(trace) if "est. achieved occupancy %" in s.args]
    if not told:
        return None
    share, weight = torch.tensor(told, dtype=torch.float64).T
    return torch.dot(share, weight) / weight.sum() / 100


def without(dropped, answer):
    """An answer that does not see some of a trace's events."""
    return lambda trace, *more, **named: answer(type(trace)([e for e in trace.events if not dropped(trace, e)]), *more, **named)


def before_the_steps(trace, event):
    return event.get("cat") == "kernel" and event["ts"] < steps_of(trace)[0].start_us


def fastest_from_the_smallest(measure, candidates):
    speeds = []
    for batch in sorted(candidates):
        try:
            speeds.append((batch, batch / measure(batch).step_ms))
        except torch.OutOfMemoryError:
            break
    best = max(speed for _, speed in speeds)
    return next(batch for batch, speed in speeds if speed / best >= 0.95)


def operators_by_kernel(trace, k):
    calls = {s.args.get("correlation"): s for s in trace.spans if s.category == "runtime"}
    operators = [s for s in trace.spans if s.category == "op"]
    count = collections.Counter(op.name for op in operators)
    own, total = collections.Counter(), collections.Counter()
    for work in trace.spans:
        call = calls.get(work.args.get("correlation")) if work.category in WORK else None
        if call is None:
            continue
        around = [op for op in operators if op.thread == call.thread and op.start_us <= call.start_us and call.end_us <= op.end_us]
        for op in around:
            total[op.name] += work.end_us - work.start_us
        if around:
            own[min(around, key=lambda op: op.duration_ms).name] += work.end_us - work.start_us
    names = sorted(count, key=lambda name: -own[name])[:k]
    return [{"name": n, "calls": count[n], "device_self_us": float(own[n]), "device_total_us": float(total[n])} for n in names]


def memory_inner_first(trace):
    operators = sorted((s for s in trace.spans if s.category == "op"), key=lambda op: op.duration_ms)
    rows = collections.defaultdict(lambda: dict.fromkeys(
        ("size_increase_bytes", "self_size_increase_bytes", "allocation_bytes", "self_allocation_bytes"), 0))
    for event in trace.events:
        args = event.get("args", {})
        if event["name"] != "[memory]" or args.get("Device Type") != 1:
            continue
        prefix = "self_"
        for op in operators:
            if op.thread == (str(event["pid"]), str(event["tid"])) and op.start_us <= event["ts"] < op.end_us:
                for kind in dict.fromkeys((prefix, "")):
                    rows[op.name][f"{kind}size_increase_bytes"] += args["Bytes"]
                    rows[op.name][f"{kind}allocation_bytes"] += max(0, args["Bytes"])
                prefix = ""
    return dict(rows)


def source_by_shortest_frame(trace, kernel_name):
    main = steps_of(trace)[0].thread
    calls = {s.args["correlation"]: s for s in trace.spans if s.category == "runtime"}
    found = collections.Counter()
    for kernel in kernels_of(trace):
        call = calls.get(kernel.args["correlation"])
        if kernel.name != kernel_name or call is None:
            continue
        frames = [s for s in trace.spans if line_of(s) and s.start_us <= call.start_us <= s.end_us]
        frames = [s for s in frames if s.thread == call.thread] or [s for s in frames if s.thread == main]
        if frames:
            found[line_of(min(frames, key=lambda s: s.duration_ms))] += kernel.end_us - kernel.start_us
    return dict(found)


def idle_by_longest_gap(trace):
    """A loader leaves long gaps between two launches."""
    steps = steps_of(trace)
    launches = [steps[0].start_us] + [s.start_us for s in trace.spans if s.category == "runtime" and "Launch" in s.name
                                      and steps[0].start_us <= s.start_us < steps[-1].end_us]
    steps_us = steps[-1].end_us - steps[0].start_us
    gaps = [b - a for a, b in zip(launches, launches[1:])]
    if sum(gap for gap in gaps if gap > 0.1 * steps_us / len(steps)) > 0.5 * steps_us:
        return "slow loader"
    fills = sum(s.duration_ms for s in kernels_of(trace) if s.args["blocks per SM"] >= 1)
    return "many small kernels" if fills > sum(s.duration_ms for s in kernels_of(trace)) / 2 else "small batch"


OTHER_ROUTES = {
    "gpu_utilization": [idle_subtracted, counted_by_changes],
    "sm_efficiency": [efficiency_between_cuts],
    "achieved_occupancy": [occupancy_with_torch, without(before_the_steps, occupancy_with_torch)],
    "choose_batch_size": [fastest_from_the_smallest],
    "top_operators": [operators_by_kernel],
    "memory_by_operator": [memory_inner_first],
    "source_of": [source_by_shortest_frame],
    "why_idle": [idle_by_longest_gap],
}

# -- wrong ------------------------------------------------------------------------------------------


def durations_added(trace):
    begin, end = bounds(trace)
    return sum(s.end_us - s.start_us for s in kernels_of(trace)) / (end - begin)


def host_steps_only(trace):
    begin, end = bounds(trace)
    return counted_by_changes(trace) * (end - begin) / (steps_of(trace)[-1].end_us - begin)


def copies_counted(trace):
    return counted_by_changes(type(trace)([{**event, "cat": "kernel"} if event.get("cat") in ("gpu_memcpy", "gpu_memset")
                                           else event for event in trace.events]))


def from_the_first_kernel(trace):
    begin, end = bounds(trace)
    kernels = kernels_of(trace)
    return counted_by_changes(trace) * (end - begin) / (max(s.end_us for s in kernels) - kernels[0].start_us)


def from_before_the_steps(trace):
    begin, end = bounds(trace)
    early = max(0.0, begin - min((s.start_us for s in kernels_of(trace)), default=begin))
    return counted_by_changes(trace) + early / (end - begin) if kernels_of(trace) else None


def blocks_from_before_the_steps(trace):
    begin, end = bounds(trace)
    early = sum(min(1, s.args.get("blocks per SM", 0)) * max(0.0, begin - s.start_us) for s in kernels_of(trace))
    return None if efficiency_between_cuts(trace) is None else efficiency_between_cuts(trace) + early / (end - begin)


def steps_on_any_row(trace):
    begin, end = bounds(trace)
    last = [span for span in trace.spans if span.name.startswith("ProfilerStep#")][-1].end_us
    share = counted_by_changes(trace)
    return share and share * (end - begin) / (max([last] + [s.end_us for s in trace.spans if s.category in WORK]) - begin)


def zero_without_kernels(trace):
    return counted_by_changes(trace) or 0.0


def mean_over_busy_time(trace):
    told = [(min(1, s.args["blocks per SM"]), s.duration_ms) for s in kernels_of(trace) if "blocks per SM" in s.args]
    return sum(b * ms for b, ms in told) / sum(ms for _, ms in told) if told else None


def not_at_most_one(trace):
    begin, end = bounds(trace)
    return sum(s.args.get("blocks per SM", 0) * (s.end_us - s.start_us) for s in kernels_of(trace)) / (end - begin)


def each_at_most_one(trace):
    begin, end = bounds(trace)
    return sum(min(1, s.args.get("blocks per SM", 0)) * (s.end_us - s.start_us) for s in kernels_of(trace)) / (end - begin)


def occupancy_over_the_steps(trace):
    begin, end = bounds(trace)
    return sum(s.args.get("est. achieved occupancy %", 0) * (s.end_us - s.start_us) for s in kernels_of(trace)) / 100 / (end - begin)


def occupancy_silent_as_zero(trace):
    kernels = kernels_of(trace)
    return sum(s.args.get("est. achieved occupancy %", 0) * s.duration_ms for s in kernels) / 100 / sum(s.duration_ms for s in kernels)


def total_as_self(trace, k):
    rows = operators_by_kernel(trace, None)
    for row in rows:
        row["device_self_us"] = row["device_total_us"]
    return sorted(rows, key=lambda row: -row["device_self_us"])[:k]


def any_thread(trace, k):
    return operators_by_kernel(type(trace)([{**event, "tid": 1} if event["pid"] == 1 else event for event in trace.events]), k)


def smallest_first(trace, k):
    return operators_by_kernel(trace, k)[::-1]


def without_copies(trace, k):
    return operators_by_kernel(type(trace)([e for e in trace.events if e.get("cat") not in ("gpu_memcpy", "gpu_memset")]), k)


def with_all_operators(trace):
    nothing = dict.fromkeys(next(iter(memory_inner_first(trace).values())), 0)
    return {**{span.name: nothing for span in trace.spans if span.category == "op"}, **memory_inner_first(trace)}


def blocks_as_operators(trace, k):
    return operators_by_kernel(type(trace)([{**event, "cat": "cpu_op"} if event.get("name") == "forward" else event
                                            for event in trace.events]), k)


def changed_memory(field, source):
    def wrong(trace):
        return {name: {**row, field: row[source]} for name, row in memory_inner_first(trace).items()}
    return wrong


def with_the_hosts_memory(trace):
    events = [{**e, "args": {**e["args"], "Device Type": 1}} if e.get("name") == "[memory]" else e for e in trace.events]
    return memory_inner_first(type(trace)(events))


def innermost_frame_of_all(trace, kernel_name):
    found = collections.Counter()
    calls = {s.args["correlation"]: s for s in trace.spans if s.category == "runtime"}
    for kernel in kernels_of(trace):
        call = calls.get(kernel.args["correlation"])
        if kernel.name == kernel_name and call is not None:
            frames = [s for s in trace.spans if s.category == "python" and s.start_us <= call.start_us <= s.end_us]
            found[frames[-1].name] += kernel.end_us - kernel.start_us
    return dict(found)


def by_frames(choose, threads):
    """Line → µs, by the frame that ``choose`` takes of those around the launch on the first of ``threads(call, trace)`` that
    has any."""
    def source(trace, kernel_name):
        calls = {s.args["correlation"]: s for s in trace.spans if s.category == "runtime"}
        found = collections.Counter()
        for kernel in kernels_of(trace):
            call = calls.get(kernel.args["correlation"])
            if kernel.name == kernel_name and call is not None:
                frames = [s for s in trace.spans if line_of(s) and s.start_us <= call.start_us <= s.end_us]
                chosen = next(filter(None, ([s for s in frames if s.thread == t] for t in threads(call, trace))), None)
                found[line_of(choose(chosen)) if chosen else "nowhere"] += kernel.end_us - kernel.start_us
        return dict(found)
    return source


def first_python_thread(trace):
    return next(span.thread for span in trace.spans if span.category == "python")


outermost_line = by_frames(lambda frames: frames[0], lambda call, trace: (call.thread, steps_of(trace)[0].thread))
main_thread_always = by_frames(lambda frames: frames[-1], lambda call, trace: (steps_of(trace)[0].thread,))
thread_of_the_first_frame = by_frames(lambda frames: frames[-1], lambda call, trace: (call.thread, first_python_thread(trace)))


def own_thread_only(trace, kernel_name):
    events = [e for e in trace.events if e.get("tid") != 2 or e.get("cat") != "cuda_runtime"]
    return source_by_shortest_frame(type(trace)(events), kernel_name)


def unlaunched_as_none(trace, kernel_name):
    return {**source_by_shortest_frame(trace, kernel_name), "None": 3.0}


def speeds_of(measure, candidates, until_full=False):
    """Batch → samples a millisecond, of those that fit; ``until_full``: of those before the first that does not."""
    speeds = {}
    for batch in candidates:
        try:
            speeds[batch] = batch / measure(batch).step_ms
        except torch.OutOfMemoryError:
            if until_full:
                break
    return speeds


def largest_that_fits(measure, candidates):
    return max(speeds_of(measure, candidates))


def fastest(measure, candidates):
    speeds = speeds_of(measure, candidates)
    return max(speeds, key=speeds.get)


def out_of_memory_ignored(measure, candidates):
    speeds = {batch: batch / measure(batch).step_ms for batch in candidates}
    return min(batch for batch, speed in speeds.items() if speed >= 0.95 * max(speeds.values()))


def until_the_memory_ends(measure, candidates):
    speeds = speeds_of(measure, candidates, until_full=True)
    return min((batch for batch, speed in speeds.items() if speed >= 0.95 * max(speeds.values())), default=None)


def first_that_comes_near(measure, candidates):
    speeds = speeds_of(measure, candidates)
    return next(batch for batch, speed in speeds.items() if speed >= 0.95 * max(speeds.values()))


def halving_the_range(measure, candidates):
    speeds = speeds_of(measure, candidates)
    order = sorted(speeds)
    low, high = 0, len(order) - 1
    while low < high:
        middle = (low + high) // 2
        enough = speeds[order[middle]] >= 0.95 * max(speeds.values())
        low, high = (low, middle) if enough else (middle + 1, high)
    return order[low]


def line_of_both_threads(trace, kernel_name):
    """The innermost of the launching thread's lines and the main one's."""
    main, found = steps_of(trace)[0].thread, collections.Counter()
    calls = {s.args["correlation"]: s for s in trace.spans if s.category == "runtime"}
    for kernel in kernels_of(trace):
        call = calls.get(kernel.args["correlation"])
        if kernel.name == kernel_name and call is not None:
            *_, line = (line_of(s) for s in trace.spans if line_of(s) and s.thread in (call.thread, main)
                        and s.start_us <= call.start_us < s.end_us)
            found[line] += kernel.end_us - kernel.start_us
    return dict(found)


def idle_by(fills):
    """Told apart by how much of the card the kernels fill: ``fills(blocks, ms)``."""
    def why_idle(trace):
        cause, told = idle_by_longest_gap(trace), [(s.args["blocks per SM"], s.duration_ms) for s in kernels_of(trace)]
        return cause if cause == "slow loader" else "small batch" if fills(*zip(*told)) < 0.5 else "many small kernels"

    return why_idle


def by_any_operator(trace):
    """The host's time in operators, whether they launch anything or not."""
    steps, busy, reached = steps_of(trace), 0.0, 0.0
    for op in (span for span in trace.spans if span.category == "op"):
        busy += max(0.0, op.end_us - max(op.start_us, reached))
        reached = max(reached, op.end_us)
    if busy < 0.5 * (steps[-1].end_us - steps[0].start_us):
        return "slow loader"
    told = [(s.duration_ms, min(1, s.args["blocks per SM"])) for s in kernels_of(trace)]
    return "small batch" if sum(ms * b for ms, b in told) < 0.5 * sum(ms for ms, _ in told) else "many small kernels"


def by_label(trace):
    if any(span.name.startswith("enumerate(DataLoader)") for span in trace.spans):
        return "slow loader"
    return idle_by_longest_gap(trace)


def any_error_taken_for_memory(kind):
    def choose_batch_size(measure, candidates):
        def measured(batch):
            try:
                return measure(batch)
            except kind as error:
                raise torch.OutOfMemoryError from error

        return fastest_from_the_smallest(measured, candidates)
    return choose_batch_size


def sorted_in_place(measure, candidates):
    candidates.sort()
    return fastest_from_the_smallest(measure, candidates)


def none_before_the_steps(trace):
    return counted_by_changes(trace) or None


def two_kernels_at_least(trace):
    return counted_by_changes(trace) if len(kernels_of(trace)) > 1 else None


def work_that_starts_last(trace):
    begin, end = bounds(trace)
    last = max(steps_of(trace)[-1].end_us, [span for span in trace.spans if span.category in WORK][-1].end_us, begin)
    share = counted_by_changes(trace)
    return None if share is None else share * (end - begin) / (last - begin)


def all_k_rows(trace, k):
    rows = operators_by_kernel(trace, None)
    return [rows[place] for place in range(k)]


def rows_without_increase_dropped(trace):
    return {name: row for name, row in memory_inner_first(trace).items()
            if row["size_increase_bytes"] or row["self_allocation_bytes"] or row["self_size_increase_bytes"]}


def other_events_removed(trace):
    trace.events[:] = [event for event in trace.events if event["name"] == "[memory]" or "dur" in event]
    return memory_inner_first(trace)


def by_the_drivers_launch(_, event):
    return event["name"] == "cuLaunchKernel"


WRONG = [
    ("gpu_utilization", none_before_the_steps, "the share is 0"),
    ("gpu_utilization", two_kernels_at_least, "a single kernel runs"),
    ("gpu_utilization", work_that_starts_last, "the work that starts last"),
    ("choose_batch_size", any_error_taken_for_memory(RuntimeError), "raised a RuntimeError here, which the function swallowed"),
    ("choose_batch_size", any_error_taken_for_memory(Exception), "which the function swallowed"),
    ("choose_batch_size", sorted_in_place, "it has changed `candidates`"),
    ("top_operators", all_k_rows, "list index out of range"),
    ("top_operators", without(before_the_steps, operators_by_kernel), "launches before the first step"),
    ("memory_by_operator", rows_without_increase_dropped, "'aten::contiguous' is missing"),
    ("memory_by_operator", other_events_removed, "it has changed `trace.events`"),
    ("source_of", without(by_the_drivers_launch, source_by_shortest_frame), "are launches too"),
    ("source_of", without(before_the_steps, source_by_shortest_frame), "launches before the first step"),
    ("gpu_utilization", durations_added, "Durations were added up"),
    ("gpu_utilization", host_steps_only, "the steps' time ends with the later of both"),
    ("gpu_utilization", copies_counted, "Copies do not count"),
    ("gpu_utilization", from_the_first_kernel, "divide by the steps' time, to which the idle time before the first kernel"),
    ("gpu_utilization", from_before_the_steps, "only what lies within the steps' time counts"),
    ("gpu_utilization", lambda trace: None, "It returned nothing: is there a `return`?"),
    ("gpu_utilization", zero_without_kernels, "no kernel: return None"),
    ("gpu_utilization", lambda trace: 100 * (counted_by_changes(trace) or 0), "A share is between 0 and 1"),
    ("sm_efficiency", mean_over_busy_time, "Idle time counts here, as 0"),
    ("sm_efficiency", not_at_most_one, "No SM is more than busy"),
    ("sm_efficiency", each_at_most_one, "add their blocks per SM first"),
    ("sm_efficiency", lambda trace: (efficiency_between_cuts(trace) or 0), "return None"),
    ("sm_efficiency", blocks_from_before_the_steps, "only what lies within the steps' time counts"),
    ("sm_efficiency", lambda trace: trace.nothing, "AttributeError"),
    ("sm_efficiency", lambda trace: gpu_utilization(trace), "put the imports and helpers it needs inside the cell"),  # noqa: F821
    ("achieved_occupancy", occupancy_over_the_steps, "Idle time does not count here"),
    ("achieved_occupancy", occupancy_silent_as_zero, "without an occupancy as 0"),
    ("achieved_occupancy", lambda trace: (occupancy_with_torch(trace) or 0) * 100, "whole per cent"),
    ("choose_batch_size", largest_that_fits, "It is the largest that fits"),
    ("choose_batch_size", fastest, "It is the fastest, but"),
    ("choose_batch_size", until_the_memory_ends, "The search ended at the first batch that does not fit"),
    ("choose_batch_size", first_that_comes_near, "The first candidate that is near enough was taken"),
    ("choose_batch_size", out_of_memory_ignored, "OutOfMemoryError"),
    ("choose_batch_size", lambda measure, candidates: measure(100_000), "none of the candidates"),
    ("top_operators", total_as_self, "Self time is of what the operator launched itself"),
    ("top_operators", any_thread, "on their own thread"),
    ("top_operators", smallest_first, "The largest `device_self_us` comes first"),
    ("top_operators", without_copies, "Copies and memsets are the GPU's work too"),
    ("top_operators", blocks_as_operators, "A block of `record_function` is not an operator"),
    ("top_operators", lambda trace, k: operators_by_kernel(trace, None), "only the first k rows"),
    ("top_operators", lambda trace, k: {}, "Return a list of dicts"),
    ("memory_by_operator", changed_memory("size_increase_bytes", "allocation_bytes"), "minus what was freed"),
    ("memory_by_operator", changed_memory("self_allocation_bytes", "allocation_bytes"), "innermost operator around the moment"),
    ("memory_by_operator", changed_memory("allocation_bytes", "size_increase_bytes"), "leave out changes below 0"),
    ("memory_by_operator", with_the_hosts_memory, "Only the GPU's memory counts"),
    ("memory_by_operator", with_all_operators, "neither allocated nor freed is left out"),
    ("memory_by_operator", lambda trace: None, "Return a dict"),
    ("source_of", innermost_frame_of_all, "A frame of PyTorch's is not the user's line"),
    ("source_of", outermost_line, "the innermost is the one"),
    ("source_of", main_thread_always, "a line of its own here"),
    ("source_of", thread_of_the_first_frame, "The main thread is the one that has the `ProfilerStep#` blocks"),
    ("source_of", own_thread_only, "from a thread without Python frames"),
    ("source_of", unlaunched_as_none, "leave it out"),
    ("source_of", lambda trace, kernel_name: [], "Return a dict"),
    ("why_idle", by_label, "is not evidence, every loop over a `DataLoader` has it"),
    ("why_idle", by_any_operator, "gives the GPU no work: only operators with a launch count"),
    ("why_idle", lambda trace: "small batch", "It is always the same answer"),
    ("why_idle", lambda trace: "bad luck", "Return one of"),
    ("gpu_utilization", without(lambda _, event: event.get("cat") == "gpu_memset", counted_by_changes), "a copy or a memset"),
    ("gpu_utilization", steps_on_any_row, "a step's copy on the GPU's row"),
    ("sm_efficiency", lambda trace: efficiency_between_cuts(trace) or None, "`or None`"),
    ("achieved_occupancy", lambda trace: (occupancy_with_torch(trace) or 0) / 1000, "have different units"),
    ("choose_batch_size", halving_the_range, "a smaller one may be fast enough again"),
    ("memory_by_operator", without(lambda _, event: (event.get("args") or {}).get("Device Id", 0) != 0, memory_inner_first), "not `Device Id`"),
    ("source_of", line_of_both_threads, "a line of its own here"),
    ("why_idle", idle_by(lambda blocks, ms: sum(map(operator.mul, blocks, ms)) / sum(ms)), "take at most 1 of its blocks per SM"),
    ("why_idle", idle_by(lambda blocks, ms: statistics.mean(min(1, b) for b in blocks)), "a plain mean"),
    *STUDENTS,
]
