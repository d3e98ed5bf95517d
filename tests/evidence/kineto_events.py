"""Kineto events for tests, spelled as PyTorch's profiler spells them; times in microseconds."""

from gapless.evidence.traces.trace import Trace

MAIN, BACKWARD = 100, 200


def span(cat, name, start, dur, tid=MAIN, pid=1, **args):
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": start,
        "dur": dur,
        "args": args,
    }


def step(number, start, dur, **extra):
    return span("user_annotation", f"ProfilerStep#{number}", start, dur, **extra)


def op(name, start, dur, tid=MAIN, **args):
    return span("cpu_op", name, start, dur, tid, **args)


def call(name, start, dur, correlation=None, tid=MAIN, cat="cuda_runtime"):
    args = {} if correlation is None else {"correlation": correlation}
    return span(cat, name, start, dur, tid, **args)


def kernel(start, dur, correlation=None, stream=7):
    return span("kernel", "gemm", start, dur, stream, 0, correlation=correlation, stream=stream, device=0)


def memcpy(kind, start, dur, correlation, bytes=4, stream=7, cat="gpu_memcpy"):
    return span(cat, f"Memcpy {kind}", start, dur, stream, 0, correlation=correlation, bytes=bytes)


def frame(name, start, dur, tid=MAIN):
    return span("python_function", name, start, dur, tid)


def memory(total, device_type=1):
    args = {"Device Type": device_type, "Total Allocated": total}
    return {"ph": "i", "name": "[memory]", "ts": 5, "pid": 1, "tid": MAIN, "args": args}


def read_back(start, correlation, *, tid=MAIN, wait=290.0):
    """``.item()`` as today's PyTorch records it: a copy of 10 us, then a synchronisation."""
    return [
        op("aten::item", start, wait + 30, tid),
        op("aten::_local_scalar_dense", start + 1, wait + 28, tid),
        call("cudaMemcpyAsync", start + 5, 10, correlation, tid),
        memcpy("DtoH (Device -> Pageable)", start + 10 + wait, 2, correlation),
        call("cudaStreamSynchronize", start + 20, wait, tid=tid),
    ]


def training_steps(count=3, step_us=300_000, wait_us=290_000, simulated=True):
    """Steps of which one read-back takes nearly all: launches, a read-back, more launches."""
    events = []
    for number in range(count):
        start, base = number * step_us, 100 * number + 1
        events += [
            step(number, start, step_us),
            frame("train.py(12): step", start, step_us - 10),
        ]
        for i in range(20):
            at = start + 500 + i * 150
            events += [
                op("aten::linear", at, 120),
                call("cudaLaunchKernel", at + 20, 10, base + i),
                kernel(start + 1_000 + i * 14_600, 14_000, base + i),
            ]
        events += [
            call("cudaMemcpyAsync", start + 3_700, 10, base + 50),
            memcpy("HtoD (Pinned -> Device)", start + 4_000, 9_000, base + 50, 120_000_000, stream=20),
            *read_back(start + 4_000, base + 60, wait=wait_us),
        ]
        for i in range(5):
            at = start + step_us - 5_000 + i * 600
            events += [
                op("aten::add_", at, 300),
                call("cudaLaunchKernel", at + 100, 10, base + 70 + i),
                kernel(at + 200, 350, base + 70 + i),
            ]
    metadata = {"deviceProperties": [{"id": 0, "name": "A100"}]}
    if simulated:
        metadata["gapless"] = {"simulated": True}
    return Trace(events, metadata)
