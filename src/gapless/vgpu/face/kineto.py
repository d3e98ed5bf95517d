"""A recording of the timeline as the events of a profiler's (Kineto) trace.

What is there is what Holistic Trace Analysis, TensorBoard's profiler plugin and Perfetto read and what the model
knows. A kernel's grid, block and what follows from them are of a model of their own (:mod:`..hardware.times.geometry`).
Left out: a kernel's registers and shared memory, since they would be invented, and the rows of ``cuda_sync`` events, which
the first of those tools would count as work of the GPU.
"""

# mypy: disable-error-code="call-arg"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

from ..hardware.cards.specs import Card
from ..hardware.clock.timeline import Recording
from ..hardware.times import geometry

HOST_PROCESS = 1
HOST_THREAD = 1

COLLECTIVE = "nccl:"  # how PyTorch's block around a collective begins, whose kernel is the block's

# Holistic Trace Analysis (0.6.1) keeps a correlation and an event's place in one column as narrow as the largest
# correlation allows; with pandas 3 a short trace whose correlations are small fails. These need 32 bits.
_FIRST_CORRELATION = 1 << 20


def trace_events(recording: Recording, card: Card) -> list[dict]:
    """Kineto ``traceEvents`` of ``recording``: times in µs, the GPU as process 0 with a thread a stream.

    An operator, the calls it makes and the work these launch share an ``External id``; 0 is no operator's.
    """
    rows, works = list(recording.rows()), list(recording.works)
    streams = sorted({row for *_, row, _ in rows if isinstance(row, int)})
    events = [
        *_process(HOST_PROCESS, "CPU"),
        *_process(0, f"GPU 0: simulated {card.name}"),
        *_thread(HOST_PROCESS, HOST_THREAD, "thread 1 (python)"),
        *(event for stream in streams for event in _thread(0, stream, f"stream {stream}")),
    ]
    owners = _owners(rows)
    launched = {args["correlation"] for *_, row, args in rows if isinstance(row, int)}
    changed_ns = {start_ns for category, _, start_ns, *_ in rows if category == "memory"}
    line = line_ns = None
    for index, (category, name, start_ns, dur_ns, row, args) in enumerate(rows):
        if category == "memory":
            events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": HOST_PROCESS,
                           "tid": HOST_THREAD, "ts": start_ns / 1e3, "args": args})
            continue
        on_host = row == "host"
        pid, tid = (HOST_PROCESS, HOST_THREAD) if on_host else (0, row)
        args = {**args}
        number = args.get("correlation")
        if number is not None:
            args["External id"] = owners.get(number, 0)
            args["correlation"] = number + _FIRST_CORRELATION
            if on_host:
                args.pop("stream", None)  # only the device's work has one: readers tell it by that
            elif "work" in args:
                kind, work, _ = works[args.pop("work")]
                args |= geometry.event_args(kind, work, card)
            elif "bytes" in args and dur_ns:
                args["memory bandwidth (GB/s)"] = args["bytes"] / dur_ns
        elif category != "python_function":
            args |= {"External id": index + 1, "Ev Idx": index}
        if category == "python_function":
            line, line_ns = name, start_ns
        elif category == "cpu_op" and line_ns == start_ns:
            args["Call stack"] = line
        # Memory that Python frees between two operators, a moment after the first, is neither's: the second begins later.
        later_ns = 2 if category == "cpu_op" and start_ns + 1 in changed_ns else 0
        events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
                       "ts": (start_ns + later_ns) / 1e3, "dur": (dur_ns - later_ns) / 1e3, "args": args})
        if number in launched:
            events.append({"ph": "s" if on_host else "f", "id": args["correlation"], "cat": "ac2g", "name": "ac2g",
                           "pid": pid, "tid": tid, "ts": start_ns / 1e3, **({} if on_host else {"bp": "e"})})
    return events


def _owners(rows: list[tuple]) -> dict[int, int]:
    """Correlation of a call → External id of the innermost operator around it, for those that have one."""
    owners: dict[int, int] = {}
    calls: list[tuple[int, int]] = []  # (start, correlation) of calls whose operator has not ended yet
    for index, (category, name, start_ns, _, _, args) in enumerate(rows):
        if category == "cuda_runtime":
            calls.append((start_ns, args["correlation"]))
        elif category == "cpu_op" or name.startswith(COLLECTIVE):  # recorded when it ends: its calls are the list's end
            while calls and calls[-1][0] >= start_ns:
                owners[calls.pop()[1]] = index + 1
    return owners


def device_properties(card: Card) -> list[dict]:
    """The ``deviceProperties`` entry of the trace."""
    major, minor = card.compute_capability
    threads, _, shared_kib = geometry.limits(card)
    return [{"id": 0, "name": card.name, "totalGlobalMem": card.memory_bytes, "computeMajor": major, "computeMinor": minor,
             "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": threads, "regsPerBlock": geometry.REGISTERS_PER_SM,
             "regsPerMultiprocessor": geometry.REGISTERS_PER_SM, "warpSize": geometry.WARP, "sharedMemPerBlock": 49_152,
             "sharedMemPerMultiprocessor": shared_kib * 1024, "numSms": card.sm_count}]


def _process(pid: int, label: str) -> list[dict]:
    # The host above the GPU, as in a measured trace.
    order = 0 if pid == HOST_PROCESS else 1
    return [_about("process_name", pid, 0, name="python"), _about("process_labels", pid, 0, labels=label),
            _about("process_sort_index", pid, 0, sort_index=order)]


def _thread(pid: int, tid: int, name: str) -> list[dict]:
    return [_about("thread_name", pid, tid, name=name), _about("thread_sort_index", pid, tid, sort_index=tid)]


def _about(kind: str, pid: int, tid: int, **args) -> dict:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": args}
