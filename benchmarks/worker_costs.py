"""What a DataLoader's worker processes cost on this machine, beside the dataset: `gapless.vgpu.hardware.clock.workers`.

    python benchmarks/worker_costs.py [--repeats 7]

Plain PyTorch on the CPU, in µs: the smallest of all repeats, since other processes only add. A worker's are its CPU time,
all of its threads, of the median batch; the main process's are real time of calls that find everything ready.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise

import torch
from timing import parse, parser
from torch.utils.data import DataLoader, Dataset

BATCHES = 40
SMALL, LARGE = 2**12, 2**24  # bytes of a tensor


class Prepared(Dataset):
    """Gives ``tensors`` tensors of ``nbytes`` each in new shared memory, as collating makes them, and the CPU time of this
    process so far. Their bytes are written: less one such write into memory that was written before."""

    def __init__(self, tensors: int, nbytes: int):
        self.nbytes, self.tensors, self.spared = nbytes, tensors, 0.0
        self.warm = torch.ones(nbytes, dtype=torch.uint8)

    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        used = time.process_time() - self.spared
        batch = []
        for _ in range(self.tensors):
            batch.append(torch.empty(0, dtype=torch.uint8).new(torch.UntypedStorage._new_shared(self.nbytes)).fill_(1))
        start = time.process_time()
        for _ in batch:
            self.warm.fill_(2)
        self.spared += 2 * (time.process_time() - start)
        return [used, *batch]


def median(values) -> float:
    return statistics.median(values) * 1e6


def as_it_is(batch):
    return batch


def load(tensors: int, nbytes: int, **options) -> DataLoader:
    return DataLoader(Prepared(tensors, nbytes), batch_size=None, collate_fn=as_it_is, num_workers=1, **options)


def run(tensors: int, nbytes: int, pause: float = 0.0, **options) -> dict[str, float]:
    loader = load(tensors, nbytes, **options)
    start, calls, used = time.perf_counter(), [], []
    iterator = iter(loader)
    created = time.perf_counter() - start
    for _ in range(BATCHES):
        start = time.perf_counter()
        while time.perf_counter() - start < pause:
            pass
        start = time.perf_counter()
        batch = next(iterator)
        calls.append(time.perf_counter() - start)
        used.append(batch[0])
    start = time.perf_counter()
    next(iterator, None)
    return {"create": created * 1e6, "start": used[0] * 1e6, "end": (time.perf_counter() - start) * 1e6,
            "worker": median(later - earlier for earlier, later in pairwise(used[5:])), "next": min(calls) * 1e6}


def ask() -> float:
    """What sends a worker the next index."""
    iterator, times = iter(load(1, 1, prefetch_factor=BATCHES)), []
    for number in range(BATCHES):
        start = time.perf_counter()
        iterator._index_queues[0].put((number + 1000, 0))
        times.append(time.perf_counter() - start)
        time.sleep(0.005)
    return median(times)


def pin(nbytes: int) -> float:
    """A copy out of shared memory that was mapped just now, into memory that is there."""
    times, target = [], torch.zeros(nbytes, dtype=torch.uint8)
    for _, tensor in load(1, nbytes):
        start = time.perf_counter()
        target.copy_(tensor)
        times.append(time.perf_counter() - start)
    return median(times)


def smallest(repeats: int, measure, *args, **options):
    found = [measure(*args, **options) for _ in range(repeats)]
    return {name: min(each[name] for each in found) for name in found[0]} if isinstance(found[0], dict) else min(found)


if __name__ == "__main__":
    repeats = parse(parser(__doc__)).repeats
    torch.set_num_threads(1)
    for method in ("fork", "forkserver", "spawn"):
        found = smallest(repeats if method == "fork" else 3, run, 1, SMALL, multiprocessing_context=method)
        print(f"{method}: the main process makes a worker {found['create']:,.0f}; its start {found['start']:,.0f} of CPU "
              f"time; its end {found['end']:,.0f}")
    one, nine, large = (smallest(repeats, run, tensors, nbytes, pause=0.02)
                        for tensors, nbytes in ((1, SMALL), (9, SMALL), (1, LARGE)))
    for who in ("worker", "next"):
        print(f"{who}: a batch of one tensor of 4 KiB {one[who]:,.0f}; each further tensor {(nine[who] - one[who]) / 8:,.0f}"
              f"; each MiB more {(large[who] - one[who]) / (LARGE - SMALL) * 2**20:,.0f}")
    print(f"the main process sends an index {smallest(repeats, ask):,.0f}")
    each = (smallest(repeats, pin, LARGE) - smallest(repeats, pin, SMALL)) / (LARGE - SMALL) * 2**20
    print(f"a copy out of new shared memory, each MiB {each:,.0f}")
