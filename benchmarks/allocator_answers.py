"""What PyTorch's own caching allocator answers to made-up programs, for tests/vgpu/hardware/memory/test_allocator.py.

    python benchmarks/allocator_answers.py [PATH]       # default: tests/vgpu/hardware/memory/allocator_answers.json

Needs no GPU: PyTorch's C++ allocator (libc10_cuda.so of a PyTorch with CUDA) runs on a CUDA runtime that is made here, with
gcc, and does nothing but hand out addresses up to a capacity. Each address is counted from the first segment's.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DEFAULT = Path(__file__).parents[1] / "tests" / "vgpu" / "hardware" / "memory" / "allocator_answers.json"
MIB = 2**20
SEEDS = 1

# What the allocator's answers depend on; all else of the runtime says that all went well.
_RUNTIME = """
#include <stdlib.h>
#include <string.h>
static size_t capacity, used, count;
static char *next = (char *)0x700000000000ull;
static struct { void *address; size_t bytes; } taken[65536];
static int pending;
int cudaGetDeviceCount(int *n) { *n = 1; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaDriverGetVersion(int *version) { *version = 13000; return 0; }
int cudaRuntimeGetVersion(int *version) { *version = 13000; return 0; }
int cudaGetDeviceProperties(char *all, int device) { memset(all, 0, 256); strcpy(all, "none"); return 0; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) { *value = 0; return 0; }
int cudaDeviceGetStreamPriorityRange(int *least, int *most) { *least = *most = 0; return 0; }
int cudaGetLastError(void) { int error = pending; pending = 0; return error; }
const char *cudaGetErrorString(int error) { return "error"; }
const char *cudaGetErrorName(int error) { return "error"; }
int cudaMemGetInfo(size_t *left, size_t *all) {
  capacity = strtoull(getenv("CAPACITY_BYTES"), 0, 10);
  *left = capacity - used; *all = capacity; return 0;
}
int cudaMalloc(void **address, size_t bytes) {
  capacity = strtoull(getenv("CAPACITY_BYTES"), 0, 10);
  if (used + bytes > capacity) return pending = 2;
  used += bytes; *address = next; next += bytes + (2 << 20);
  taken[count].address = *address; taken[count++].bytes = bytes;
  return 0;
}
int cudaFree(void *address) {
  for (size_t i = 0; i < count; i++)
    if (taken[i].address == address) { used -= taken[i].bytes; taken[i] = taken[--count]; return 0; }
  return 0;
}
int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; return 0; }
int cudaEventCreateWithFlags(void **event, unsigned flags) { *event = malloc(8); return 0; }
"""

# Names → what a program's sizes are drawn from, and the card's capacity in MiB.
PROGRAMS = {
    "small blocks": (lambda draw: draw.randint(1, 1 << draw.randint(1, 20)), 64),
    "large blocks": (lambda draw: draw.randint(MIB + 1, 40 * MIB), 1000),
    "both": (lambda draw: draw.randint(1, 1 << draw.randint(1, 25)), 400),
    "near the limits": (lambda draw: draw.choice((MIB, 10 * MIB, 20 * MIB, 2 * MIB, 1024)) + draw.randint(-600, 600), 300),
    "a card that is full": (lambda draw: draw.randint(1, 30 * MIB), 120),
}


def events(name: str, seed: int, count: int = 250) -> list[list]:
    """A program: ["take", number, bytes, stream], ["give", number] or ["empty"]."""
    draw, (size, _) = random.Random(f"{name} {seed}"), PROGRAMS[name]
    found, living = [], []
    for number in range(count):
        chance = draw.random()
        if chance < 0.01:
            found.append(["empty"])
        elif chance < 0.45 and living:
            found.append(["give", living.pop(draw.randrange(len(living)))])
        else:
            found.append(["take", number, size(draw), draw.choice((0, 0, 0, 256))])
            living.append(number)
    return found


def answers(program: list[list]) -> dict:
    """What PyTorch's allocator does with ``program``, after each event."""
    import torch

    torch.cuda.init()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    living, found, base, message = {}, [], None, None
    for kind, *rest in program:
        address = None
        if kind == "take":
            number, nbytes, stream = rest
            try:
                address = torch.cuda.caching_allocator_alloc(nbytes, 0, stream)
                living[number] = address
                base = address if base is None else base
            except torch.OutOfMemoryError as error:
                message = str(error)
        elif kind == "give":
            if rest[0] in living:
                torch.cuda.caching_allocator_delete(living.pop(rest[0]))
        else:
            torch.cuda.empty_cache()
        found.append([None if address is None else address - base, torch.cuda.memory_allocated(),
                      torch.cuda.memory_reserved()])
    stats = torch.cuda.memory_stats()
    snapshot = [[segment["address"] - base, segment["total_size"], segment["segment_type"], segment["stream"],
                 [[block["size"], block["requested_size"], block["state"]] for block in segment["blocks"]]]
                for segment in torch.cuda.memory_snapshot()]
    for address in living.values():
        torch.cuda.caching_allocator_delete(address)
    return {"events": program, "answers": found, "stats": stats, "snapshot": snapshot, "message": message}


def runtime(folder: Path) -> dict[str, str]:
    """Environment variables with which PyTorch finds the runtime that is made in ``folder``."""
    library, = Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/lib/libcudart.so.*")
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = sorted(set(re.findall(r" [TW] (_*cuda\w+)", listed)) - set(re.findall(r"\b(cuda\w+)\(", _RUNTIME)))
    rest = "\n".join(f"long {name}(void) {{ static long room[8]; return (long)room; }}" if name.startswith("__") else
                     f"int {name}(void) {{ return 0; }}" for name in names)
    driver = "int cuDevicePrimaryCtxGetState(int d, unsigned *f, int *active) { *f = 0; *active = 1; return 0; }"
    for name, source in (("runtime.so", _RUNTIME + rest), ("libcuda.so.1", driver)):
        command = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", folder / name]
        subprocess.run(command, input=source, text=True, check=True)
    return {"LD_PRELOAD": str(folder / "runtime.so"), "LD_LIBRARY_PATH": str(folder), "PYTHONWARNINGS": "ignore"}


def main(path: str = str(DEFAULT)) -> None:
    if path == "--run":
        print(json.dumps(answers(json.load(sys.stdin))))
        return
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        made = runtime(Path(folder))
        for name, (_, capacity_mib) in PROGRAMS.items():
            for seed in range(SEEDS):
                environment = {**os.environ, **made, "CAPACITY_BYTES": str(capacity_mib * MIB)}
                done = subprocess.run([sys.executable, __file__, "--run"], input=json.dumps(events(name, seed)), text=True,
                                      env=environment, stdout=subprocess.PIPE, check=True)
                found[f"{name}, {seed}"] = {"capacity_bytes": capacity_mib * MIB, **json.loads(done.stdout)}
    import torch

    Path(path).write_text(json.dumps({"torch": torch.__version__, "programs": found}, separators=(",", ":")) + "\n")
    print(f"{path}: {len(found)} programs, torch {torch.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
