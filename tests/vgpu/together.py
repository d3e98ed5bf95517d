"""Two processes that train together, once on the CPU and once on the virtual GPU: what a test file's programs return there.

A test file has ``PROGRAMS``: name → function of (rank, device), and asks :func:`outcomes`. As
``python -m tests.vgpu.together MODULE FOLDER`` this file is what runs them.
"""

import datetime
import functools
import importlib
import os
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from gapless import vgpu

from .. import ROOT, forked


@functools.cache
def outcomes(module):
    """[rank][name] → {"cpu" and "vgpu": what the program returned there, or its error in words; "waits": those on the device}."""
    with tempfile.TemporaryDirectory() as folder:
        done = forked.run("-m", "tests.vgpu.together", module, folder, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        return [torch.load(f"{folder}/{rank}.pt", weights_only=False) for rank in range(2)]


def plain(value):
    """``value`` with all tensors on the CPU, whole where they are in pieces."""
    if isinstance(value, torch.Tensor):
        return (value.full_tensor() if hasattr(value, "full_tensor") else value).detach().cpu().clone()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return {name: plain(each) for name, each in value.items()} if isinstance(value, dict) else value


# Groups, to the process's end: else the future of a hook may drop the last reference in a thread of Gloo's, which then waits
# for itself ("Resource deadlock avoided"; seen on the CPU, with PyTorch's own Gloo).
_kept: list = []


def once(program, rank, device, backend, store):
    """What ``program`` returns in a group of its own."""
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=2,
                            timeout=datetime.timedelta(seconds=30))
    torch.manual_seed(0)
    _kept.append(dist.group.WORLD)
    try:
        return plain(program(rank, device))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        dist.destroy_process_group()


def child(rank, programs, folder):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
    device, found = vgpu.enable("a100"), {}
    for number, (name, program) in enumerate(programs.items()):
        waits = []
        expected = once(program, rank, torch.device("cpu"), "gloo", f"{folder}/{number}-cpu")
        vgpu.timeline().wait_hooks.append(waits.append)

        def watched(rank, device, program=program, waits=waits):
            out = program(rank, device)
            vgpu.timeline().wait_hooks.remove(waits.append)
            return out

        seen = once(watched, rank, device, None, f"{folder}/{number}-vgpu")
        vgpu.timeline().wait_hooks.clear()
        found[name] = {"cpu": expected, "vgpu": seen, "waits": [f"{wait.name} in {wait.op}" for wait in waits]}
    torch.save(found, f"{folder}/{rank}.pt")


if __name__ == "__main__":
    module, folder = sys.argv[1:]
    mp.start_processes(child, args=(importlib.import_module(module).PROGRAMS, folder), nprocs=2, start_method="fork")
