"""What PyTorch's caching allocator does on a real card, beside the model's answers.

    python benchmarks/allocator_on_a_gpu.py

Prints whether the programs of allocator_answers.py get the bytes that were written down without a GPU, the time of a
new segment (``cudaMalloc``) and of giving one back (``cudaFree``) by size, and a request that is refused for want of a block
while there are bytes enough. Needs CUDA.
"""

from __future__ import annotations

import json
import statistics
import time

import torch
from allocator_answers import DEFAULT, MIB, answers

SIZES_MIB = (2, 20, 100, 1000)
REPEATS = 15


def same_blocks(program: dict) -> bool:
    """Whether each event leaves as much allocated and reserved as without a GPU. Addresses are the driver's own."""
    found = answers(program["events"])
    return [row[1:] for row in found["answers"]] == [row[1:] for row in program["answers"]]


def driver_us(nbytes: int) -> tuple[float, float]:
    """Median µs of the host for a new segment of ``nbytes``, and for giving it back on an idle device."""
    taken, given = [], []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        block = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        taken.append(time.perf_counter() - start)
        del block
        start = time.perf_counter()
        torch.cuda.empty_cache()
        given.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6, statistics.median(given) * 1e6


def refused() -> str:
    """The error of a request that has the bytes and no block."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    blocks = [torch.empty(5 * MIB, dtype=torch.uint8, device="cuda") for _ in range(free // (20 * MIB) * 4)]
    del blocks[0::4], blocks[0::3], blocks[0::2]
    try:
        torch.empty(free // 2, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        return str(error)
    return "not refused"


def main() -> None:
    programs = json.loads(DEFAULT.read_text())["programs"]
    for name, program in programs.items():
        if "full" not in name:  # that one needs a card as small as the made-up one
            print(f"{name}: {'the same' if same_blocks(program) else 'other'} bytes as without a GPU")
    torch.cuda.empty_cache()
    for size in SIZES_MIB:
        print("{} MiB: cudaMalloc {:.0f} us, cudaFree {:.0f} us".format(size, *driver_us(size * MIB)))
    print(refused())


if __name__ == "__main__":
    main()
