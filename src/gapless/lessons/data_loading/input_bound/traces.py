"""Small traces for ``input_bound``: written event by event, or run on the clocks of a modelled card."""

from __future__ import annotations

import numpy as np

from ....evidence.traces.trace import Trace
from ...profiler_tour.disturbances import Events
from ...profiler_tour.real import real_step
from ...profiler_tour.traces import GPU, Program, Sketch
from .right import blocks_of, steps_of, steps_time

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SEVERAL = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
OWN = "enumerate(DataLoader)#Epochs.__next__"  # of an iterator that somebody has written
COPY = "Memcpy HtoD (Pinned -> Device)"


def loading_trace(rng: np.random.Generator, *, load=(100, 260), queue=1.0, kernels=6, streams=1, beside=False,
                  nested=False, elsewhere=None, waits=False, copies=True, mirrored=False, namesakes=False, name=SINGLE,
                  steps=3) -> Events:
    """Steps that fetch a batch for ``load`` µs and then launch ``kernels``. ``queue``: how long a kernel is beside its
    launch, so that more of them are left when the next batch is fetched; ``streams``: kernels and copies at once;
    ``beside``: a copy on another stream during the fetch; ``nested``: a loader around the loader; ``elsewhere``: the
    ``tid`` or ``pid`` of another thread or process, which fetches too; ``namesakes``: spans whose names say something
    similar; ``waits``: the host waits for the GPU before the step ends; ``mirrored``: the profiler repeats the
    blocks on the GPU's row."""
    sketch, now, ready = Sketch(), 1000 + rng.uniform(0, 500), {}

    def put(kind: str, length: float, stream: int, category="kernel") -> None:
        nonlocal now
        start = max(now + 4, ready.get(stream, 0.0)) + rng.uniform(0.2, 2)
        ready[stream] = start + length
        sketch.work(kind, now, start, start + length, category=category, stream=stream)
        now += 3 + rng.uniform(1, 5)

    for number in range(steps):
        begin = now
        now += rng.uniform(1, 8)
        fetch, length = now, rng.uniform(*load)
        if beside:
            put(COPY, rng.uniform(0.2, 0.5) * length, 21, "gpu_memcpy")
        if copies and number and rng.random() < 0.5:
            put("Memset (Device)", rng.uniform(1, 4), 7, "gpu_memset")
        now = max(now, fetch + length)
        sketch.operator("aten::stack", now - 0.3 * length, now - 0.1 * length)
        if nested:
            sketch.span("user_annotation", SEVERAL, fetch + 0.1 * length, now - 0.05 * length)
        sketch.span("user_annotation", name, fetch, now)
        if mirrored:
            sketch.span("gpu_user_annotation", name, fetch, now + 0.5 * length, pid=GPU, tid=7)
        if elsewhere:
            sketch.span("user_annotation", name, now + 2, now + 2 + rng.uniform(40, 80), **elsewhere)
        now += rng.uniform(1, 6)
        if copies:
            put(COPY, rng.uniform(10, 40), 7, "gpu_memcpy")
        for i in range(kernels):
            put(f"kernel_{i}", queue * rng.uniform(4, 12), 7 + 4 * (i % streams))
        if waits:
            until = max([now, *ready.values()]) + 2
            sketch.span("cuda_runtime", "cudaStreamSynchronize", now, until, correlation=1)
            now = until
        now += rng.uniform(4, 20)
        if namesakes:
            for other in ("DataLoader: files", "enumerate(files)#next", "dataloader", SINGLE.replace(")", "2)"),
                          f"my {SINGLE}"):
                sketch.span("user_annotation", other, begin + 1, now - 1)
        sketch.step(number, begin, now)
        if mirrored:  # from its first kernel to its last
            sketch.span("gpu_user_annotation", f"ProfilerStep#{number}", begin + 5, max([now, *ready.values()]) + 200,
                        pid=GPU, tid=7)
        now += 0.5
    return sketch.finish(rng)


def program_trace(rng: np.random.Generator, card: str, *, load: float, batch: int, waits=False, name=SINGLE, steps=3
                  ) -> Events:
    """A few steps of a network on the clocks of a modelled card; fetching a batch takes ``load`` times what the rest of a
    step takes the host."""
    program = Program(card, python_ns=int(rng.integers(1_000, 3_000)))
    timeline, layers, width = program.timeline, int(rng.integers(8, 15)), int(rng.choice([256, 384, 512]))
    rest_ns = 0
    for number in range(1 + steps):
        begin = timeline.host_ns
        program.on_host("aten::stack", max(2_000, round(rest_ns * load)))
        program.block(name, begin)
        loaded = timeline.host_ns
        program.copy(4 * batch * width)
        for _ in range(layers):
            program.matmul(batch, width, width)
            program.pointwise(batch * width, "aten::relu")
        if waits:
            program.wait()
        if number == 0:  # a warm-up: how long the host takes, and no queue when recording begins
            rest_ns = timeline.host_ns - loaded
            program.wait()
            timeline.recording.fields.clear()
        else:
            program.block(f"ProfilerStep#{number}", begin)
    program.wait()
    return program.trace().events


def real_with_blocks(rng: np.random.Generator) -> Events:
    """One step of a real distributed training on CUDA, into which blocks of a loader have been put: it had none."""
    events = real_step()
    trace = Trace(events)
    step, (start, end) = steps_of(trace)[0], steps_time(trace)
    host = next(event for event in events if event["name"] == step.name)
    length = end - start
    places = [(start + rng.uniform(0.0, 0.1) * length, rng.uniform(0.1, 0.2) * length),
              (start + rng.uniform(0.4, 0.5) * length, rng.uniform(0.05, 0.3) * length)]
    return [*events, *({**host, "name": SEVERAL, "ts": at, "dur": lasts, "args": {}} for at, lasts in places)]


def without_steps(events: Events) -> Events:
    return [event for event in events if not event["name"].startswith("ProfilerStep#")]


def longer(rng: np.random.Generator, events: Events) -> Events:
    """Something runs on the host before all else, and something for longer than the span that starts last."""
    operator, trace = next(event for event in events if event.get("cat") == "cpu_op"), Trace(events)
    first, last = min(span.start_us for span in trace.spans), max(span.end_us for span in trace.spans)
    since, until = max(span.start_us for span in trace.spans) - rng.uniform(1, 5), last + rng.uniform(100, 200)
    return [*events, {**operator, "ts": first - rng.uniform(100, 200), "dur": rng.uniform(5, 20)},
            {**operator, "ts": since, "dur": until - since}]


def without_blocks(events: Events) -> Events:
    return [event for event in events if not event["name"].startswith("enumerate(DataLoader)#")]


def without_work(events: Events) -> Events:
    return [event for event in events if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset")]


def cut_off(rng: np.random.Generator, events: Events) -> Events:
    """The first block begins before the first step, the last one ends after the last; and one lies before them all. A kernel
    from before the first step runs into the first block."""
    trace = Trace(events)
    start, end = steps_time(trace)
    blocks = blocks_of(trace)
    first = next(event for event in events if event["name"] == blocks[0].name)
    length = end - start
    changes = [(start - rng.uniform(0.05, 0.1) * length, blocks[0].end_us), (blocks[-1].start_us, end + 0.2 * length),
               (start - 0.4 * length, start - 0.2 * length)]
    kept = [event for event in events if not event["name"].startswith("enumerate(DataLoader)#")]
    since, until = start - rng.uniform(0.05, 0.1) * length, start + rng.uniform(0.3, 0.7) * (blocks[0].end_us - start)
    kernel = next(event for event in events if event.get("cat") == "kernel")
    kept.append({**kernel, "ts": since, "dur": until - since})
    return [*kept, *({**first, "ts": since, "dur": until - since} for since, until in changes)]


def of_an_older_profiler(events: Events) -> Events:
    """As PyTorch 1.8 wrote it: blocks are operators, categories have capitals, times may be text."""
    names = {"cpu_op": "Operator", "user_annotation": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel",
             "gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}
    return [{**event, "cat": names.get(event["cat"], event["cat"])} if "cat" in event else event for event in events]
