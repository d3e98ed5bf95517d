"""Ranks for tests: collectives as PyTorch's profiler writes them; times in microseconds."""

import gzip
import random
from pathlib import Path

from gapless.evidence.traces.trace import Trace

from .kineto_events import BACKWARD, call, op, span

REAL_RANK_0 = Path(__file__).parents[2] / "src/gapless/lessons/profiler_tour/real/ddp_rank0.json.gz"
REAL_RANK_1 = Path(__file__).parent / "real" / "ddp_rank1.json.gz"
REAL_RANK_OF_TWO = Path(__file__).parent / "real" / "nccl_rank0.json.gz"


def collective(start, kernel_start, kernel_dur, number, kind="all_reduce", *, elements=1000, group=None, launches=True,
               dtype="float", says="allreduce"):
    """The operator, the block, the launch and the kernel of one collective; ``number`` tells it from others."""
    args = {"Collective name": says, "In msg nelems": elements, "dtype": "Float"}
    if group is not None:
        args |= {"Process Group Name": group[0], "Process Group Ranks": str(list(group[1]))}
    outer, inner = 100_000 + 2 * number, 100_001 + 2 * number
    return [op("record_param_comms", start, 20, BACKWARD, **{"External id": outer}, **args),
            span("user_annotation", f"nccl:{kind}", start + 2, 16, BACKWARD,
                 **{"External id": inner, "Input Dims": [[elements]], "Input type": [dtype]}),
            *([call("cudaLaunchKernel", start + 5, 4, number, BACKWARD)] if launches else []),
            span("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", kernel_start, kernel_dur,
                 20, 0, correlation=number, stream=20, device=0, **{"External id": outer})]


def rank(number, *events, world=2):
    return Trace(list(events), {"distributedInfo": {"backend": "nccl", "rank": number, "world_size": world}})


def real_rank_and_its_twin():
    """A real rank of two, and in the other's place the same with kernels of NCCL that begin later, by chance."""
    real, draw, events = Trace.read(REAL_RANK_OF_TWO), random.Random(0), []
    for event in real.events:
        late_us = draw.uniform(0, 0.7) * event["dur"] if event["cat"] == "kernel" and event["name"].startswith("nccl") else 0
        events.append({**event, "ts": event["ts"] + 1234.5 + late_us, "dur": event["dur"] - late_us})
    return [real, Trace(events, {**real.metadata, "distributedInfo": {**real.metadata["distributedInfo"], "rank": 1}})]


def real_ranks():
    return [Trace.from_bytes(gzip.decompress(path.read_bytes())) for path in (REAL_RANK_0, REAL_RANK_1)]
