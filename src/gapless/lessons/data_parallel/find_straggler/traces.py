"""Made-up traces of a run's ranks, from a plan: steps of kernels, host work, a loader and collectives that meet.

A :class:`Plan` says how long everything takes on each rank; :func:`simulate` plays it, and every wait follows from that: a
kernel runs when it is launched and its stream is free, a collective moves data when its last rank has come. So the truth is
known by playing the plan again without what slows a rank. Nothing here is measured; durations are made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ....evidence.traces.trace import Trace

HOST, GPU = 1, 0  # processes
MAIN, BACKWARD = 1, 2  # threads of the host
COMPUTE, COMMUNICATION, BESIDE, COPIES = 7, 20, 24, 28  # streams
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LOADER_WITHOUT_WORKERS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
_LAUNCH_US, _CALL_US = 6.0, 40.0
_FEW = 12  # elements of a small collective
_KERNELS = {"all_reduce": ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                           "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)"),
            "_reduce_scatter_base": ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                                     "ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)")}
_PARAMETERS = {"all_reduce": "allreduce", "_reduce_scatter_base": "_reduce_scatter_base"}


@dataclass(frozen=True)
class Plan:
    """How a run goes; times in µs, arrays by step and rank where nothing else is said.

    ``load``: fetching a batch; ``loader``: the name of its block; ``copy``: one to the GPU that is under way meanwhile, or,
    with ``fills``, memory that is set; ``copies``: one goes on beside each collective; ``first``: the first step's number;
    ``kernel``: a kernel's mean length; ``parts``: into how many kernels a layer is cut on a rank; ``beside``: how many
    kernels a rank runs on a stream of their own, beside the layers; ``layers``: of the network, each one kernel forward and
    two backward, with ``elements`` parameters; ``buckets``: how many collectives a step; ``rate``: elements a µs that a
    link moves, by rank: the slowest of a group counts; ``grid``: rows of ranks whose members reduce and scatter first, and
    then reduce across the rows, or 1 for one group of all; ``once``: group → how many times as long its first collective
    takes; ``small``: group → how often it also reduces some numbers at the end of each step; ``waits``: the host reads the
    loss at the end of each step; ``skew``: what each rank's clock is ahead; ``older``: kernels have the names of NCCL
    before 2.19; ``noise``: the share by which durations vary.
    """

    load: np.ndarray
    kernel: np.ndarray
    parts: np.ndarray
    beside: np.ndarray
    rate: np.ndarray
    skew: np.ndarray
    copy: float = 0.0
    loader: str = LOADER
    fills: bool = False
    copies: bool = False
    first: int = 0
    layers: int = 8
    elements: int = 400_000
    buckets: int = 3
    grid: int = 1
    once: dict[tuple[int, ...], float] = field(default_factory=dict)
    small: dict[tuple[int, ...], int] = field(default_factory=dict)
    waits: bool = False
    older: bool = False
    noise: float = 0.02
    seed: int = 0

    @property
    def steps(self) -> int:
        """How many steps."""
        return self.load.shape[0]

    @property
    def world(self) -> int:
        """How many ranks."""
        return self.load.shape[1]

    def groups(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each collective of a bucket, one after another, the groups of ranks that do it."""
        ranks = np.arange(self.world).reshape(self.grid, -1)
        if self.grid == 1:
            return (tuple(map(tuple, ranks.tolist())),)
        return tuple(map(tuple, ranks.tolist())), tuple(map(tuple, ranks.T.tolist()))


def even_plan(rng: np.random.Generator, world: int, steps: int = 5, **more) -> Plan:
    """A run whose ranks have equal work. ``more``: fields of :class:`Plan`."""
    kernel = rng.uniform(150, 400)
    full = np.ones((steps, world))
    return Plan(**{"load": full * rng.uniform(30, 90), "kernel": full * kernel, "parts": np.ones(world, int),
                   "beside": np.zeros(world, int), "rate": np.full(world, 1.0) * rng.uniform(9_000, 16_000),
                   "skew": np.zeros(world), "layers": int(rng.integers(6, 11)), "buckets": int(rng.integers(2, 5)),
                   "seed": int(rng.integers(2**31)), **more})


@dataclass
class _Rank:
    """One rank while its plan is played; times in µs."""

    number: int
    skew: float
    now: float
    ready: dict[int, float] = field(default_factory=dict)
    events: list[dict] = field(default_factory=list)
    correlation: int = 1 << 20
    external: int = 0

    def span(self, category, name, start, end, pid=HOST, tid=MAIN, **args) -> None:
        start = round(start + self.skew, 3)
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start,
                            "dur": round(end + self.skew - start, 3), "args": args})

    def number_of_next(self) -> int:
        self.external += 1
        return self.external

    def launch(self, external: int, tid: int, call="cudaLaunchKernel") -> tuple[int, float]:
        """A launch on the host: its correlation, and when the work can begin."""
        self.correlation += 1
        self.span("cuda_runtime", call, self.now, self.now + 4, tid=tid,
                  **{"correlation": self.correlation, "External id": external})
        self.now += _LAUNCH_US
        return self.correlation, self.now - 1

    def work(self, name, length, stream=COMPUTE, tid=MAIN, category="kernel", after=0.0, **args) -> None:
        """An operator on the host, and what it launches."""
        begin, external = self.now, self.number_of_next()
        self.now += 2
        call = {"kernel": "cudaLaunchKernel", "gpu_memcpy": "cudaMemcpyAsync", "gpu_memset": "cudaMemsetAsync"}[category]
        correlation, able = self.launch(external, tid, call)
        start = max(able, self.ready.get(stream, 0.0), after) + 1
        self.ready[stream] = start + length
        self.span(category, name, start, start + length, GPU, stream, correlation=correlation, device=0, stream=stream,
                  **{"External id": external}, **args)
        self.now += 1
        self.span("cpu_op", f"aten::{name.split('_')[0]}", begin, self.now, tid=tid, **{"External id": external})


def simulate(plan: Plan) -> list[Trace]:
    """The traces that the plan's ranks leave, in order of the ranks."""
    rng = np.random.default_rng(plan.seed)
    start = 1e6 + rng.uniform(0, 1e3)
    ranks = [_Rank(r, plan.skew[r], start + rng.uniform(0, 20)) for r in range(plan.world)]
    for step in range(plan.steps):
        _step(plan, step, ranks, rng)
    traces = []
    for rank in ranks:
        order = rng.permutation(len(rank.events))
        info = {"backend": "nccl", "rank": rank.number, "world_size": plan.world}
        traces.append(Trace([rank.events[i] for i in order], {
            "schemaVersion": 1, "distributedInfo": info, "deviceProperties": [{"id": 0, "name": "made-up GPU"}],
            "gapless": {"simulated": True}}))
    return traces


def _step(plan: Plan, step: int, ranks: list[_Rank], rng: np.random.Generator) -> None:
    begins = [rank.now for rank in ranks]
    varied = 1 + plan.noise * rng.uniform(-1, 1, (3 * plan.layers + 2, plan.world))
    for rank in ranks:
        rank.now += 3
        if plan.copy and plan.fills:
            rank.work("Memset (Device)", plan.copy, category="gpu_memset", bytes=round(12_000 * plan.copy))
        elif plan.copy:
            rank.work("Memcpy HtoD (Pinned -> Device)", plan.copy, category="gpu_memcpy", bytes=round(12_000 * plan.copy))
        begin = rank.now
        rank.now += plan.load[step, rank.number] * varied[-1, rank.number]
        rank.span("user_annotation", plan.loader, begin, rank.now, **{"External id": rank.number_of_next()})
        rank.work("Memcpy HtoD (Pinned -> Device)", 20.0, category="gpu_memcpy", bytes=1_000_000)
        for layer in range(plan.layers):
            _layer(plan, step, rank, f"linear_{layer}", varied[layer, rank.number], MAIN)
        for _ in range(plan.beside[rank.number]):
            rank.work("augment_kernel", plan.kernel[step, rank.number] * plan.layers * 2 / plan.beside[rank.number], BESIDE)
    last = 0
    for bucket in range(plan.buckets):
        until = round((bucket + 1) * plan.layers / plan.buckets)
        for layer in range(last, until):
            for part in (0, 1):
                for rank in ranks:
                    _layer(plan, step, rank, f"linear_backward_{plan.layers - 1 - layer}",
                           varied[plan.layers + 2 * layer + part, rank.number], BACKWARD)
        size = plan.elements * (until - last)
        last = until
        for place, groups in enumerate(plan.groups()):
            kind = "_reduce_scatter_base" if plan.grid > 1 and place == 0 else "all_reduce"
            share = size // len(groups[0]) * len(groups[0]) if place == 0 else size // len(plan.groups()[0][0])
            for number, group in enumerate(groups):
                _collective(plan, [ranks[r] for r in group], kind, share, f"{1 + place if plan.grid > 1 else 0}", group, rng,
                            first=place == 0, times=plan.once.get(group, 1.0) if step == bucket == 0 else 1.0)
    for group, times in plan.small.items():
        kind = "_reduce_scatter_base" if plan.grid > 1 and group in plan.groups()[0] else "all_reduce"
        for _ in range(times):
            _collective(plan, [ranks[r] for r in group], kind, _FEW, "9", group, rng, first=False)
    for rank, begin in zip(ranks, begins):
        rank.work("adam_step", 60.0 * varied[-2, rank.number], after=rank.ready[COMMUNICATION])
        if plan.waits:
            called = rank.now
            rank.now = max(rank.ready.values()) + 5
            rank.span("cuda_runtime", "cudaStreamSynchronize", called, rank.now, correlation=0)
        rank.now += 4
        rank.span("user_annotation", f"ProfilerStep#{plan.first + step}", begin, rank.now,
                  **{"External id": rank.number_of_next()})
        rank.now += 1


def _layer(plan: Plan, step: int, rank: _Rank, name: str, varied: float, tid: int) -> None:
    parts = plan.parts[rank.number]
    for _ in range(parts):
        rank.work(name, plan.kernel[step, rank.number] * varied / parts, tid=tid)


def _collective(plan: Plan, ranks: list[_Rank], kind: str, elements: int, label: str, group, rng, *, first: bool,
                times: float = 1.0) -> None:
    """Each rank calls it; the data moves when the last rank's kernel has begun."""
    args = {"Collective name": _PARAMETERS[kind], "In msg nelems": elements,
            "Out msg nelems": elements if kind == "all_reduce" else elements // len(group), "dtype": "Float",
            "Group size": len(group), "Process Group Name": label, "Process Group Ranks": str(list(group))}
    transfer = times * (15 + elements / min(plan.rate[r] for r in group)) * (1 + plan.noise * rng.uniform(-1, 1))
    started = []
    for rank in ranks:
        begin, outer, inner = rank.now, rank.number_of_next(), rank.number_of_next()
        rank.now += 4
        called = rank.now
        rank.now += 3
        correlation, able = rank.launch(outer, BACKWARD)
        # The bucket's gradients are there when the kernels before it are done.
        after = rank.ready.get(COMPUTE, 0.0) if first else 0.0
        started.append((rank, correlation, outer, inner, max(able, after, rank.ready.get(COMMUNICATION, 0.0)) + 2))
        rank.now = called + _CALL_US
        rank.span("user_annotation", f"nccl:{kind}", called, rank.now, tid=BACKWARD,
                  **{"External id": inner, "Input Dims": [[elements]], "Input type": ["float"]})
        rank.now += 2
        rank.span("cpu_op", "record_param_comms", begin, rank.now, tid=BACKWARD, **{"External id": outer}, **args)
    end = max(start for *_, start in started) + transfer
    for rank, correlation, outer, inner, start in started:
        rank.ready[COMMUNICATION] = end
        rank.span("kernel", _KERNELS[kind][plan.older], start, end, GPU, COMMUNICATION, correlation=correlation, device=0,
                  stream=COMMUNICATION, **{"External id": outer}, **args)
        if plan.copies:
            rank.span("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", start, end, GPU, COPIES, device=0, stream=COPIES)
        rank.span("gpu_user_annotation", f"nccl:{kind}", start - 1, end + 0.5, GPU, COMMUNICATION, **{"External id": inner})
