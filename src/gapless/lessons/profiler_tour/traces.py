"""Small traces for lesson 01's checks: made by chance with known traps, or run on the clocks of a modelled card.

Neither needs a GPU or PyTorch's device: the first kind is written event by event, the second drives a timeline of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ... import vgpu
from ...evidence.traces.trace import Trace
from ...measure.recorder import as_trace
from ...vgpu.hardware.kernels.costs import Kernel
from .disturbances import BLOCKS, DEVICE, OCCUPANCY, memory_change

HOST, GPU = 1, 0  # processes
MAIN, BACKWARD, LOADER = 1, 2, 3  # threads of the host


class Sketch:
    """A trace written event by event; times in µs."""

    def __init__(self):
        self.events: list[dict] = []
        self._correlation = 1000

    def span(self, category: str, name: str, start_us: float, end_us: float, *, pid=HOST, tid=MAIN, **args) -> None:
        """Anything with a duration."""
        start_us = round(start_us, 3)
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start_us,
                            "dur": round(end_us - start_us, 3), "args": args})

    def operator(self, name: str, start_us: float, end_us: float, tid=MAIN) -> None:
        """An operator on the host."""
        self.span("cpu_op", name, start_us, end_us, tid=tid)

    def step(self, number: int, start_us: float, end_us: float) -> None:
        """A profiled step."""
        self.span("user_annotation", f"ProfilerStep#{number}", start_us, end_us)

    def work(self, name: str, launch_us: float, start_us: float, end_us: float, *, category="kernel", stream=7, tid=MAIN,
             **args) -> None:
        """A launch of 3 µs on the host at ``launch_us``, and what it launched on the GPU."""
        self._correlation += 1
        call = {"kernel": "cudaLaunchKernel", "gpu_memcpy": "cudaMemcpyAsync", "gpu_memset": "cudaMemsetAsync"}[category]
        self.span("cuda_runtime", call, launch_us, launch_us + 3, tid=tid, correlation=self._correlation)
        self.span(category, name, start_us, end_us, pid=GPU, tid=stream,
                  **{"correlation": self._correlation, "device": DEVICE, "stream": stream, **args})

    def memory(self, at_us: float, nbytes: int, *, tid=MAIN, device_type=1) -> None:
        """A change of memory: of the GPU's (device type 1) or the host's (0)."""
        self.events.append(memory_change({"pid": HOST, "tid": tid}, round(at_us, 3), int(nbytes), device_type=device_type))

    def finish(self, rng: np.random.Generator) -> list[dict]:
        """The events in no order, as a profiler writes them."""
        return [self.events[i] for i in rng.permutation(len(self.events))]


COPY = "Memcpy HtoD (Pinned -> Device)"


def busy_trace(rng: np.random.Generator, *, streams=1, copies=False, late=False, within=False, silent=0.0, small=False,
               ends_with="", running=False, steps=3) -> list[dict]:
    """Steps of a few kernels. ``streams``: how many run at once; ``within``: short kernels inside a long one of
    another stream; ``copies``: between the kernels; ``late``: the GPU works on after the last step; ``silent``: the share of
    kernels that do not tell their blocks and occupancy; ``small``: each kernel has few blocks; ``ends_with``: the category
    of a step's last work, where that is a copy or a memset; ``running``: a kernel of another stream runs from before the
    first step until after its first kernel has begun."""
    sketch, now, ready, first = Sketch(), 1000 + rng.uniform(0, 500), {}, 0.0

    def tell() -> dict:
        if rng.random() < silent:
            return {}
        blocks = rng.uniform(0.05, 0.6) if small or rng.random() < 0.5 else rng.uniform(1.2, 40)
        return {BLOCKS: round(blocks, 3), OCCUPANCY: int(rng.integers(4, 95))}

    def put(name, stream, length, category="kernel", **args):
        nonlocal now, first
        start = max(now + 3 + rng.uniform(1, 4), ready.get(stream, 0)) + rng.uniform(0.5, 6)
        sketch.work(name, now, start, start + length, category=category, stream=stream, **args)
        ready[stream] = start + length
        first = min(first, start)
        now += 3 + rng.uniform(2, 12)

    if running:
        sketch.work("running_kernel", now, now + rng.uniform(4, 9), now + rng.uniform(160, 240), stream=20, **tell())
        now += rng.uniform(50, 90)
    for number in range(steps):
        begin, first = now, float("inf")
        now += rng.uniform(5, 40)
        if copies:
            put(COPY, 7, rng.uniform(20, 90), "gpu_memcpy")
        if within:
            put("long_kernel", 7, rng.uniform(250, 400), **tell())
        for i in range(6):
            stream = 7 + 4 * ((i + within) % (streams + within))
            stream = stream if not within else 11
            put(f"kernel_{i}", stream, rng.uniform(4, 30) if within else rng.uniform(10, 60), **tell())
        if ends_with:
            name = {"gpu_memcpy": "Memcpy DtoH (Device -> Pinned)", "gpu_memset": "Memset (Device)"}[ends_with]
            put(name, 7, rng.uniform(60, 120), ends_with)
        if number < steps - 1 or not (late or ends_with):
            now = max([now, *ready.values()]) + rng.uniform(10, 60)
        sketch.operator("aten::step", begin + 1, now - 1)
        sketch.step(number, begin, now)
        # The profiler repeats a block on the GPU's row.
        sketch.span("gpu_user_annotation", f"ProfilerStep#{number}", first, max(ready.values()), pid=GPU, tid=7)
        now += 0.5
    return sketch.finish(rng)


LAYERS = ("aten::linear", "aten::conv2d", "aten::layer_norm", "aten::gelu", "aten::softmax")
INNER = {"aten::linear": "aten::addmm", "aten::conv2d": "aten::cudnn_convolution",
         "aten::layer_norm": "aten::native_layer_norm", "aten::gelu": "aten::gelu_", "aten::softmax": "aten::_softmax"}
USER_LINES = ("train/model.py(31): forward", "train/model.py(47): forward", "train/layers.py(12): forward")
LIBRARY_LINES = ("torch/nn/modules/module.py(1739): _call_impl", "torch/nn/modules/linear.py(125): forward",
                 "<built-in function linear>", "nn.Module: Linear_3")
WRAPPING_LINE = "train/layers.py(5): __call__"
CALLING_LINE, BACKWARD_LINE, MEANWHILE_LINE = "train/loop.py(18): step", "train/loop.py(20): step", "train/loop.py(31): wait"
OWN_BACKWARD_LINE, LOADER_LINE = "train/layers.py(40): backward", "train/loader.py(9): fetch"


@dataclass(frozen=True)
class Traps:
    """What a training trace holds besides nested operators: a backward thread beside the main one (with ``own_thread_busy``
    the main one copies meanwhile, with ``python_backward`` a layer's backward is written in Python), copies and memsets,
    frees outside operators and the host's own memory and a labelled block that launches by itself (``outside``), kernels
    launched before the recording began (``in_flight``), a loader's thread with Python lines of its own and a backward thread
    that launches more than the main one (``loader``)."""

    backward: bool = True
    copies: bool = False
    outside: bool = False
    own_thread_busy: bool = False
    python_backward: bool = False
    in_flight: bool = False
    loader: bool = False


def training_trace(rng: np.random.Generator, traps: Traps = Traps(), steps=2) -> list[dict]:
    """Steps of nested operators with kernels, memory and Python lines; the GPU is far behind the host."""
    sketch, now, ready = Sketch(), 1000 + rng.uniform(0, 500), 0.0
    started = now

    def launch(name, tid, **more):
        nonlocal now, ready
        start = max(now + 6, ready) + rng.uniform(0, 3)
        ready = start + rng.uniform(8, 120)
        sketch.work(name, now, start, ready, tid=tid, **more)
        now += 3 + rng.uniform(1, 3)

    def inner(name, tid, parts):
        nonlocal now
        begin = now
        now += rng.uniform(1, 3)
        sketch.memory(now, 512 * rng.integers(1, 5000), tid=tid)
        now += 1
        for part in range(parts):
            launch(f"{name.removeprefix('aten::')}_kernel_{part}" if rng.random() < 0.8 else "shared_kernel", tid)
        if traps.copies and rng.random() < 0.5:
            launch("Memset (Device)", tid, category="gpu_memset")
        if rng.random() < 0.5:
            sketch.memory(now, -512 * rng.integers(1, 3000), tid=tid)
        if traps.outside and rng.random() < 0.4:
            sketch.memory(now + 0.2, 512 * rng.integers(1, 900), tid=tid, device_type=0)
        now += rng.uniform(1, 3)
        sketch.operator(name, begin, now, tid)
        now += 0.5

    def layer(name, tid):
        nonlocal now
        begin = now
        now += rng.uniform(1, 4)
        if rng.random() < 0.5:
            sketch.memory(now, 512 * rng.integers(1, 400), tid=tid)
        now += 1
        inner(INNER[name], tid, int(rng.integers(1, 3)))
        if rng.random() < 0.6:  # work of its own
            launch(f"{name.removeprefix('aten::')}_epilogue", tid)
        if traps.copies and rng.random() < 0.4:
            launch(COPY, tid, category="gpu_memcpy")
        now += rng.uniform(1, 3)
        sketch.operator(name, begin, now, tid)

    if traps.in_flight:
        for i in range(3):
            sketch.span("kernel", "shared_kernel", now + 20 * i, now + 20 * i + rng.uniform(5, 15), pid=GPU, tid=7,
                        correlation=i + 1, device=DEVICE, stream=7)
        ready = now + 60
    for number in range(steps):
        begin = now
        now += rng.uniform(2, 5)
        if traps.outside:
            sketch.memory(now, -512 * rng.integers(1, 3000))
            now += 1
        forward = now
        if traps.outside:
            now += 1
            launch("custom_kernel", MAIN)
            now += 1
        for name in rng.permutation(LAYERS):
            line, library = now, now + 0.3
            now += 0.8
            layer(str(name), MAIN)
            sketch.span("python_function", str(rng.choice(LIBRARY_LINES)), library, now + 0.2)
            sketch.span("python_function", str(rng.choice(USER_LINES)), line, now + 0.5)
            sketch.span("python_function", WRAPPING_LINE, line, now + 0.6)  # starts at the same moment
            now += 1
        sketch.span("python_function", CALLING_LINE, forward - 0.05, now - 0.1)
        sketch.span("user_annotation", "forward", forward - 0.1, now)
        if traps.backward:
            called = now
            now += 2
            if traps.own_thread_busy:
                # Meanwhile the main thread copies the next batch: around the same moments, on another thread.
                busy = now
                launch(COPY, MAIN, category="gpu_memcpy")
            for name in LAYERS[:3] * (3 if traps.loader else 1):
                outer = now
                now += 0.7
                layer(name, BACKWARD)
                if traps.python_backward and name == LAYERS[1]:
                    launch("own_backward_kernel", BACKWARD)
                    sketch.span("python_function", LIBRARY_LINES[2], outer + 0.5, now + 0.1, tid=BACKWARD)
                    sketch.span("python_function", OWN_BACKWARD_LINE, outer + 0.4, now + 0.2, tid=BACKWARD)
                    # Later than the backward pass's own line, so that the innermost of both threads' is not that.
                    sketch.span("python_function", MEANWHILE_LINE, outer + 0.6, now + 0.1)
                node = f"{name.removeprefix('aten::').title()}Backward0"
                sketch.operator(f"autograd::engine::evaluate_function: {node}", outer, now + 0.4, BACKWARD)
                now += 1
            if traps.own_thread_busy:
                sketch.operator("aten::copy_", busy - 0.1, now - 0.1)
            sketch.span("python_function", "torch/_tensor.py(625): backward", called + 0.4, now + 0.2)
            sketch.span("python_function", BACKWARD_LINE, called, now + 0.5)
            now += 1
        now += rng.uniform(3, 9)
        sketch.step(number, begin, now)
        now += 0.5
    if traps.loader:
        sketch.span("python_function", LOADER_LINE, started - 5, now + 5, tid=LOADER)
    return sketch.finish(rng)


class Program:
    """Runs on a timeline of its own. ``python_ns``: what Python needs between two operators."""

    def __init__(self, card: str, python_ns: int = 2_000):
        self.card = vgpu.CARDS[card]
        self.timeline = vgpu.Timeline(self.card)
        self.timeline.recording = vgpu.Recording(lines=False)
        self.python_ns = python_ns

    def run(self, name: str, *kernels: Kernel) -> None:
        """One operator, and the kernels that it launches."""
        self.timeline.host_work(self.python_ns)
        self.timeline.begin_op(name)
        for kernel in kernels:
            self.timeline.launch(kernel.name, kernel.duration_ns(self.card), work=(kernel.kind, kernel.work, kernel.dtype))
        self.timeline.end_op()

    def matmul(self, rows: int, columns: int, depth: int, name: str = "aten::addmm") -> None:
        """A product in float32 (TF32 where the card has it)."""
        nbytes = 4 * (rows * columns + (rows + columns) * depth)
        flops, work = 2.0 * rows * columns * depth, (rows, columns, 1, 0)
        self.run(name, Kernel("gemm_kernel", "matmul", nbytes, flops, "tf32", work=work))

    def pointwise(self, elements: int, name: str = "aten::add") -> None:
        """Reads and writes each element."""
        self.run(name, Kernel("elementwise_kernel", "pointwise", 8 * elements, work=(elements,)))

    def copy(self, nbytes: int) -> None:
        """A pinned batch goes to the card."""
        self.timeline.begin_op("aten::copy_")
        self.timeline.copy("HtoD", nbytes, pinned=True, blocking=False)
        self.timeline.end_op()

    def on_host(self, name: str, ns: int) -> None:
        """An operator that computes on the host."""
        self.timeline.begin_op(name, ns)
        self.timeline.end_op()

    def block(self, name: str, since_ns: int) -> None:
        """A block of ``record_function``, which takes the host a microsecond."""
        self.timeline.host_work(1_000)
        self.timeline.annotate(name, since_ns)

    def wait(self) -> None:
        """The host waits for the card."""
        self.timeline.synchronize_device()

    def trace(self) -> Trace:
        """Everything so far."""
        return as_trace(self.timeline.recording, self.card, {})
