"""A recording of the timeline as the events of a profiler's (Kineto) trace."""

from __future__ import annotations

from .specs import Card
from .timeline import Recording

HOST_PROCESS = 1
HOST_THREAD = 1


def trace_events(recording: Recording, card: Card) -> list[dict]:
    """Kineto ``traceEvents`` of ``recording``: times in µs, the GPU as process 0 with a thread a stream."""
    events = [
        _name("process_name", HOST_PROCESS, 0, "python"),
        _name("process_labels", HOST_PROCESS, 0, "CPU", "labels"),
        _name("process_name", 0, 0, "python"),
        _name("process_labels", 0, 0, "GPU 0", "labels"),
        _name("thread_name", HOST_PROCESS, HOST_THREAD, "thread 1 (python)"),
    ]
    streams = sorted({record.row for record in recording.records if isinstance(record.row, int)})
    events += [_name("thread_name", 0, stream, f"stream {stream}") for stream in streams]
    flows = []
    for index, record in enumerate(recording.records):
        if record.category == "memory":
            events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": HOST_PROCESS,
                           "tid": HOST_THREAD, "ts": record.start_ns / 1e3, "args": record.args})
            continue
        on_host = record.row == "host"
        pid, tid = (HOST_PROCESS, HOST_THREAD) if on_host else (0, record.row)
        args = {"External id": index, **record.args}
        events.append({"ph": "X", "cat": record.category, "name": record.name, "pid": pid, "tid": tid,
                       "ts": record.start_ns / 1e3, "dur": record.dur_ns / 1e3, "args": args})
        correlation = record.args.get("correlation")
        if correlation is not None:
            flows.append({"ph": "s" if on_host else "f", "id": correlation, "cat": "ac2g", "name": "ac2g", "pid": pid,
                          "tid": tid, "ts": record.start_ns / 1e3, **({} if on_host else {"bp": "e"})})
    return events + flows


def device_properties(card: Card) -> list[dict]:
    """The ``deviceProperties`` entry of the trace."""
    major, minor = card.compute_capability
    return [{"id": 0, "name": card.name, "totalGlobalMem": card.memory_bytes, "computeMajor": major,
             "computeMinor": minor, "numSms": card.sm_count}]


def _name(kind: str, pid: int, tid: int, name: str, key: str = "name") -> dict:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {key: name}}
