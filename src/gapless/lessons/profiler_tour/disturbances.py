"""Traps that any trace can be given. Every exercise on traces passes through the whole list, on a trace of its own.

A trap adds one thing that real files hold and that a wrong answer trips over. It leaves alone whether the exercises' texts
say what is right: what is left out for an exercise, its cases name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

BLOCKS, OCCUPANCY = "blocks per SM", "est. achieved occupancy %"
DEVICE = 2  # the GPU's number: not the 0 that a trace of a single GPU has
Events = list[dict]


@dataclass(frozen=True)
class Trap:
    """``name``: how a case with it is called. ``why``: what to look at where an answer is wrong here and right before."""

    name: str
    add: Callable[[np.random.Generator, Events], Events]
    why: str


def host_steps(events: Events) -> Events:
    return sorted((e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")),
                  key=lambda e: e["ts"])


def _extent(events: Events) -> tuple[float, float, float]:
    """The first step's start, the end of all, and the time between."""
    start = host_steps(events)[0]["ts"]
    end = max(e["ts"] + e.get("dur", 0) for e in events if "ts" in e)
    return start, end, end - start


def _span(category: str, name: str, start: float, end: float, like: dict, **more) -> dict:
    """A span on the process and thread of ``like``."""
    return {"ph": "X", "cat": category, "name": name, "pid": like["pid"], "tid": like["tid"], "ts": start,
            "dur": end - start, "args": {}, **more}


def _launch(events: Events, number: int, at: float, length: float, like: dict) -> dict:
    return _span("cuda_runtime", "cudaLaunchKernel", at, at + length, like,
                 args={"correlation": largest_correlation(events) + number})


def largest_correlation(events: Events) -> int:
    return max((e["args"].get("correlation", 0) for e in events if isinstance(e.get("args"), dict)), default=0)


def _kernel(events: Events, number: int, start: float, end: float, name: str, stream: int) -> dict:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": end - start,
            "args": {"correlation": largest_correlation(events) + number, "device": DEVICE, "stream": stream, BLOCKS: 2.5,
                     OCCUPANCY: 40}}


def memory_change(like: dict, at: float, nbytes: int, *, name="[memory]", device_type=1) -> dict:
    """On the process and thread of ``like``: of the GPU's memory (device type 1) or the host's (0)."""
    return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": name, "pid": like["pid"], "tid": like["tid"], "ts": at,
            "args": {"Device Type": device_type, "Device Id": DEVICE if device_type else -1, "Bytes": nbytes}}


def other_blocks(rng, events):
    start, end, length = _extent(events)
    host = host_steps(events)[0]
    blocks = [("ProfilerStep (warm-up)", start - 0.4 * length, start - 0.1 * length),
              ("epoch 3", start - 1.5 * length, end + 0.9 * length), ("Optimizer.step#SGD.step", end, end + 0.8 * length)]
    other = {**host, "tid": 88}
    return [*events, *(_span("user_annotation", name, since, until, host) for name, since, until in blocks),
            _span("user_annotation", "checkpoint", start - 1.6 * length, start - 1.4 * length, other)]


def host_goes_on(rng, events):
    start, end, length = _extent(events)
    host = host_steps(events)[0]
    until = end + rng.uniform(0.2, 0.6) * length
    sync = _span("cuda_runtime", "cudaDeviceSynchronize", end + 0.02 * length, until - 0.01 * length, host,
                 args={"correlation": largest_correlation(events) + 1})
    return [*events, sync, _span("cpu_op", "aten::item", end + 0.01 * length, until, host),
            _span("cpu_op", "aten::empty", start - 0.3 * length, start - 0.2 * length, host)]


def early_work(rng, events):
    start, _, length = _extent(events)
    host, found = host_steps(events)[0], []
    for number in (1, 2):
        at = start - (0.6 - 0.2 * number) * length
        found += [_launch(events, number, at - 0.05 * length, 0.01 * length, host),
                  _kernel(events, number, at, at + rng.uniform(0.05, 0.1) * length, "warmup_kernel", 7)]
    return [*events, *found]


def _meanwhile(events: Events, pid, tids: dict, operator: str, frame: str) -> Events:
    """On other threads: an operator for as long as each step, and a Python frame and a short operator around each launch."""
    found = []
    for step in host_steps(events):
        inset = 0.001 * step["dur"]
        for tid in dict.fromkeys(tids.values()):
            found.append({**_span("cpu_op", operator, step["ts"] + inset, step["ts"] + step["dur"] - inset, step),
                          "pid": pid, "tid": tid})
    for call in events:
        if call.get("cat") == "cuda_runtime":
            margin = 0.02 * call["dur"]
            for category, name in (("cpu_op", operator), ("python_function", frame)):
                found.append({**_span(category, name, call["ts"] - margin, call["ts"] + call["dur"] + margin, call),
                              "pid": pid, "tid": tids[call["tid"]]})
    return [*events, *found]


def second_python_thread(rng, events):
    tids = {e["tid"]: 77 for e in events if e.get("cat") == "cuda_runtime"}
    return _meanwhile(events, host_steps(events)[0]["pid"], tids or {0: 77}, "aten::stack", "train/loader.py(9): fetch")


def other_process(rng, events):
    host = host_steps(events)[0]
    tids = {e["tid"]: e["tid"] for e in events if e.get("cat") == "cuda_runtime"}
    pid = host["pid"] + 1 if isinstance(host["pid"], int) else f"{host['pid']}1"
    return _meanwhile(events, pid, tids or {0: host["tid"]}, "aten::sort", "evaluate/model.py(7): forward")


def zeros(rng, events):
    told = [e for e in events if OCCUPANCY in (e.get("args") or {})]
    chosen = {id(e) for e in rng.permutation(np.array(told, dtype=object))[:max(1, len(told) // 2)]} if told else set()

    def zero(event):
        small = {BLOCKS: 0.0} if event["args"].get(BLOCKS, 1) < 1 else {}
        return {**event, "args": {**event["args"], OCCUPANCY: 0, **small}}

    return [zero(e) if id(e) in chosen else e for e in events]


def alike_names(rng, events):
    names = sorted(e["name"] for e in events if e.get("cat") == "kernel")
    if not names:
        return events
    often = max(dict.fromkeys(names), key=names.count)
    changed, number = [], 0
    for event in events:
        if event.get("cat") == "kernel" and event["name"] != often:
            number += 1
            alike = (event["name"], f"{often}_vectorized", f"void {often}")
            event = {**event, "name": alike[number % 3]}
        changed.append(event)
    return changed


def other_launch_calls(rng, events):
    names = {"cudaLaunchKernelExC": "cuda_runtime", "cuLaunchKernel": "cuda_driver", "cudaGraphLaunch": "cuda_runtime"}
    kernels = {e["name"]: e["args"]["correlation"] for e in events if e.get("cat") == "kernel"}
    driver, changed = set(kernels.values()), []  # of each kernel's launches one
    for event in events:
        if event["name"] == "cudaLaunchKernel" and (event["args"]["correlation"] in driver or rng.random() < 0.8):
            name = "cuLaunchKernel" if event["args"]["correlation"] in driver else str(rng.choice(list(names)))
            event = {**event, "name": name, "cat": names[name]}
        changed.append(event)
    return changed


def no_length(rng, events):
    found = []
    for kernel in events:
        if kernel.get("cat") == "kernel":
            at = kernel["ts"] + kernel["dur"] * float(rng.choice([0.0, 0.5, 1.0]))
            found.append({**kernel, "name": "empty_kernel", "ts": at, "dur": 0.0, "tid": 41,
                          "args": {**kernel["args"], "stream": 41}})
    return [*events, *found]


def graphs(rng, events):
    """Of each kernel three that start at the same moment, as the branches of a graph; two take equally long."""
    changed = []
    for event in events:
        if event.get("cat") != "kernel":
            changed.append(event)
            continue
        short = event["dur"] * rng.uniform(0.2, 0.3)
        for branch, length in enumerate((short, short, event["dur"] - 2 * short)):
            stream = event["tid"] + 100 * branch
            changed.append({**event, "dur": length, "tid": stream, "args": {**event["args"], "stream": stream}})
    return changed


def renumbered(rng, events):
    steps = [step["name"] for step in host_steps(events)]
    first = 10 - max(1, len(steps) - 1)
    names = {name: f"ProfilerStep#{first + i}" for i, name in enumerate(steps)}
    return [{**e, "name": names.get(e["name"], e["name"])} for e in events]


def bookkeeping(rng, events):
    host = host_steps(events)[0]
    place = {"pid": host["pid"], "tid": host["tid"]}
    found = [{"ph": "M", "name": "process_name", **place, "ts": 0, "args": {"name": "python"}},
             {"ph": "M", "name": "thread_sort_index", **place, "ts": 0, "args": {"sort_index": 4}},
             {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": _extent(events)[1] + 1}]
    calls = [e for e in events if e.get("cat") == "cuda_runtime"]
    for call in calls:
        found.append({"ph": "s", "id": call["args"]["correlation"], "cat": "ac2g", "name": "ac2g", "pid": call["pid"],
                      "tid": call["tid"], "ts": call["ts"]})
    found += [memory_change(call, call["ts"], 4096, name="[OutOfMemory]") for call in calls[::3]]
    return [*events, *found]


def calls_that_launch_nothing(rng, events):
    """In each operator without a call: one of the runtime's, and a line of Python with ``Launch`` in its name."""
    calls = [e for e in events if e.get("cat") == "cuda_runtime"]
    found, number = [], 0
    for op in events:
        if op.get("cat") == "cpu_op" and not any(op["ts"] <= call["ts"] < op["ts"] + op["dur"] for call in calls):
            number += 1
            at, length = op["ts"] + 0.3 * op["dur"], 0.1 * op["dur"]
            found += [_span("cuda_runtime", "cudaHostAlloc", at, at + length, op,
                            args={"correlation": largest_correlation(events) + number}),
                      _span("python_function", "<built-in method Launch>", at + 2 * length, at + 3 * length, op)]
    return [*events, *found]


def nested(rng, events):
    """In each operator that launches, further ones, as deep as autograd's and ATen's go."""
    calls = [e for e in events if e.get("cat") == "cuda_runtime" and "Launch" in e["name"]]
    found = []
    for op in events:
        if op.get("cat") == "cpu_op":
            inside = [call["ts"] for call in calls if op["ts"] <= call["ts"] < op["ts"] + op["dur"]
                      and (call["pid"], call["tid"]) == (op["pid"], op["tid"])]
            if inside:
                # From a little before the first launch to a little before the end.
                since, until = op["ts"] + 0.9 * (min(inside) - op["ts"]), op["ts"] + op["dur"]
                for depth in range(1, 6):
                    rest = until - max(inside)
                    found.append({**op, "name": f"{op['name']}_{depth}", "ts": since + 0.001 * depth * (min(inside) - since),
                                  "dur": until - 0.01 * depth * rest - since - 0.001 * depth * (min(inside) - since)})
    return [*events, *found]


def thread_without_operators(rng, events):
    found, number = [], 0
    for step in host_steps(events):  # as many in each: a last step that launches less is left out
        host = {**step, "tid": 66}
        for share in (0.3, 0.6):
            number += 1
            at = step["ts"] + share * step["dur"]
            found += [_launch(events, number, at, 0.001 * step["dur"], host),
                      _kernel(events, number, at + 0.002 * step["dur"], at + 0.004 * step["dur"], "custom_kernel", 61)]
    return [*events, *found]


def touching(rng, events):
    found, number = [], 0
    for step in host_steps(events):
        inside = [e for e in events if e.get("cat") == "cpu_op" and (e["pid"], e["tid"]) == (step["pid"], step["tid"])
                  and step["ts"] <= e["ts"] and e["ts"] + e["dur"] < step["ts"] + step["dur"]]
        for op in sorted(inside, key=lambda e: e["ts"])[:4]:
            # The numbers that are its start and end, to the last bit. A loader's operator launches nothing: only at its end.
            moments = [op["ts"] + op["dur"]] + [op["ts"]] * (op["name"] != "aten::stack")
            for at in moments:
                number += 1
                since = at + rng.uniform(0.5, 2)  # the kernel is short: it tells nothing of how the card is filled
                found += [_launch(events, number, at, 0.01, op),
                          _kernel(events, number, since, since + 0.002 * step["dur"], "next_kernel", 51),
                          memory_change(op, at, 77824), memory_change(op, at, -4096)]
    return [*events, *found]


def same_name(rng, events):
    moments = sorted(e["ts"] for e in events if e.get("cat") == "cuda_runtime")
    found = []
    for op in events:
        if op.get("cat") == "cpu_op" and any(op["ts"] < at < op["ts"] + op["dur"] for at in moments) and rng.random() < 0.6:
            found.append({**op, "ts": op["ts"] + 0.004, "dur": op["dur"] - 0.008})
    return [*events, *found]


def frees_only(rng, events):
    _, end, length = _extent(events)
    host, found = host_steps(events)[0], []
    for number, (name, changes) in enumerate((("aten::set_", [-1]), ("aten::clone", [1, -1]))):
        at, nbytes = end + (0.05 + 0.05 * number) * length, 512 * int(rng.integers(100, 900))
        found.append(_span("cpu_op", name, at, at + 0.03 * length, host))
        found += [memory_change(host, at + 0.01 * place * length, sign * nbytes)
                  for place, sign in enumerate(changes, start=1)]
    clone = next(event for event in found if event["name"] == "aten::clone")
    around = {**clone, "name": "aten::contiguous", "ts": clone["ts"] - 0.005 * length, "dur": clone["dur"] + 0.01 * length}
    return [*events, *found, around]


def before_the_steps(events: Events, line: str) -> Events:
    """The last kernel's launch once more before the first step, in an operator and at a line."""
    start, _, length = _extent(events)
    kernel = max((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    host, at = host_steps(events)[0], start - 0.5 * length
    return [*events, _span("python_function", line, at, at + 0.1 * length, host),
            _span("cpu_op", "aten::linear", at + 0.01 * length, at + 0.09 * length, host),
            _launch(events, 1, at + 0.02 * length, 0.01 * length, host),
            _kernel(events, 1, at + 0.04 * length, at + 0.2 * length, kernel["name"], kernel["tid"])]


def scaled(rng, events):
    factor = float(rng.choice([1 / 16, 32.0]))
    return [{**e, **{key: e[key] * factor for key in ("ts", "dur") if key in e}} for e in events]


# Slower and faster first: what is added afterwards may stand at the very end of something.
TRAPS = (
    Trap("slower or faster as a whole", scaled,
         "All times here are those of a much faster or slower program. A limit in µs fits one card at most: compare with "
         "the steps' time."),
    Trap("step numbers of two digits", renumbered,
         "The steps' numbers go on from the schedule's, here past 9: none has to be called `ProfilerStep#0`, and as "
         "text \"#10\" comes before \"#9\". Sort by time."),
    Trap("blocks that are no steps", other_blocks,
         "Only a block whose name starts with `ProfilerStep#`, with the `#`, is a step. Here are others: one is around "
         "everything, one is called much the same."),
    Trap("the host goes on after the last step", host_goes_on,
         "After the last step the host goes on with something else (and did so before the first), which the GPU has "
         "nothing to do with. The steps' time ends with the last `ProfilerStep#` block or the GPU's last work."),
    Trap("kernels that were over before the first step", early_work,
         "Here kernels ran and ended before the first step: they lie outside the steps' time. With `max(start, first)` as "
         "their start, their end comes before it: leave them out."),
    Trap("a second Python thread", second_python_thread,
         "Another thread of Python runs at the same time here: what it does has nothing to do with a launch, an allocation "
         "or a line of this one. Compare `span.thread`."),
    Trap("a thread of the same number in another process", other_process,
         "Here another process has a thread of the same number. A thread is the whole pair `span.thread`, process and "
         "thread."),
    Trap("kernels that tell 0", zeros,
         "Some kernels tell a 0 here, which is an answer (the file has whole per cent): `if span.args.get(…)` takes it for "
         "missing. Ask whether the name is `in span.args`."),
    Trap("kernels whose names are alike", alike_names,
         "Other kernels have a name that contains this one or starts with it: compare whole names, with `==`."),
    Trap("launches by other names", other_launch_calls,
         "A launch may have another name than `cudaLaunchKernel`: `cudaLaunchKernelExC`, `cuLaunchKernel` and "
         "`cudaGraphLaunch` are launches too. Look for `Launch` in the name, or for the correlation of a kernel."),
    Trap("kernels of no length", no_length,
         "Some kernels take 0 µs here, and share their launch with another. They take no time, and count in no mean that "
         "is weighted by time."),
    Trap("launches of several kernels", graphs,
         "Here one call launches several kernels, as a CUDA graph does: all have its correlation. A dict from correlation "
         "to *one* kernel keeps the last of them alone: add up, or go from each kernel to its call. And they start at the "
         "same moment, and some take equally long: they are several all the same."),
    Trap("events without args", bookkeeping,
         "`trace.events` holds all that the file has: events without `args` or `cat`, and `[OutOfMemory]` beside "
         "`[memory]`. Only `[memory]` is a change of memory; ask for `args` with `.get`."),
    Trap("calls that launch nothing", calls_that_launch_nothing,
         "Not every call of the runtime launches (`cudaHostAlloc` makes pinned memory), and not everything with `Launch` in "
         "its name is a call: only a span of the category `runtime` with `Launch` in its name."),
    Trap("operators inside operators, six deep", nested,
         "Here operators call operators that call operators. The time of the inner ones is in that of the outer one: do not "
         "add it again."),
    Trap("launches on a thread without operators", thread_without_operators,
         "Here a thread launches and runs no operator: there is not an operator to give its kernels to. "
         "`threads.get(thread)` is `None` for it."),
    Trap("something at an operator's very start and end", touching,
         "Here launches and allocations come at the very moment at which an operator starts or ends. It is around those "
         "with `op.start_us <= moment < op.end_us`: what comes at its end is no longer the operator's."),
    Trap("an operator inside one of the same name", same_name,
         "Here operators call one of the same name, as `aten::sum` does in real traces. Both count what the inner one does "
         "as their total (so the name counts it twice), and only the inner one as its own. Both are calls."),
    Trap("an operator that only frees", frees_only,
         "Here one operator only frees, and one frees as much as it allocated, inside another. All three have changed "
         "memory, so all have a row, though a sum of theirs is 0."),
)


def together(traps: tuple[Trap, ...]) -> Trap:
    """All of them in one trace."""

    def add(rng, events):
        for trap in traps:
            events = trap.add(rng, events)
        return events

    return Trap("all of this together", add, "Each difficulty alone went well before; here they come together. Which two "
                                             "of them meet in your code?")


def trap_in(case_name: str) -> Trap | None:
    """The trap after which a case is called."""
    return next((trap for trap in (*TRAPS, together(())) if case_name.endswith(trap.name)), None)
