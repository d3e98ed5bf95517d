"""The time of collectives: streams, waits, and how backward passes and their gradients' reductions overlap."""

import functools

import torch
import torch.distributed as dist

import gapless
from gapless import vgpu
from gapless.vgpu.hardware import interconnect

CARD = "a100"
SIZE = 1 << 23  # numbers


def in_group(program):
    """``program`` in a process group; [rank] → what it returned."""
    @functools.wraps(program)
    def run(rank, world, *args):
        dist.init_process_group()
        try:
            return program(rank, *args)
        finally:
            dist.destroy_process_group()

    return lambda world, *args: [each.value for each in gapless.on_gpus(world, run, *args, device=CARD)]


def took_ns(function, nbytes, world=2):
    return interconnect.course(function, nbytes, [0] * world, vgpu.find_card(CARD)).ns


def finished():
    """When the current stream is done with what it holds."""
    return vgpu.timeline().record_event().ns


@in_group
def waits(rank):
    """After each of a collective's forms: the stream's end and the host's clock, and the collective's own end."""
    x = torch.ones(SIZE, device="vgpu:0")
    dist.all_reduce(x)  # the first makes the group's connections, in no virtual time
    timeline, found = vgpu.timeline(), {}
    timeline.synchronize_device()
    begun_ns = timeline.host_ns
    dist.all_reduce(x)
    found["sync"] = finished() - begun_ns, timeline.host_ns - begun_ns, finished() - begun_ns
    timeline.synchronize_device()
    begun_ns = timeline.host_ns
    work = dist.all_reduce(x, async_op=True)
    before = finished() - begun_ns
    work.wait()
    found["async"] = before, timeline.host_ns - begun_ns, finished() - begun_ns
    timeline.synchronize_device()
    begun_ns = timeline.host_ns
    dist.barrier(device_ids=[0])
    found["barrier"] = None, timeline.host_ns - begun_ns, finished() - begun_ns
    return found


def test_streams_wait_and_the_host_only_for_a_barrier():
    for found in waits(2):
        took = took_ns("AllReduce", 4 * SIZE)
        stream, host, end = found["sync"]
        assert stream == end > took > host  # on the current stream
        stream, host, end = found["async"]
        assert stream < took < end  # beside it, until wait()
        assert host < took
        _, host, end = found["barrier"]
        assert took_ns("AllReduce", 4) < host < end + 1000 < host + 10_000  # the host knows that all is done


SIZES = {"all_reduce": ("AllReduce", 4 * SIZE), "broadcast": ("Broadcast", 4 * SIZE), "reduce": ("Reduce", 4 * SIZE),
         "all_gather": ("AllGather", 8 * SIZE), "reduce_scatter": ("ReduceScatter", 8 * SIZE),
         "all_to_all": ("SendRecv", 2 * SIZE), "gather": ("SendRecv", 4 * SIZE), "scatter": ("SendRecv", 4 * SIZE)}


@in_group
def each_kind(rank):
    x, both = torch.ones(SIZE, device="vgpu:0"), torch.ones(2 * SIZE, device="vgpu:0")
    parts = list(both.chunk(2))
    calls = {"all_reduce": lambda: dist.all_reduce(x), "broadcast": lambda: dist.broadcast(x, 0), "reduce": lambda: dist.reduce(x, 1),
             "all_gather": lambda: dist.all_gather_into_tensor(both, x), "reduce_scatter": lambda: dist.reduce_scatter_tensor(x, both),
             "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(x), x),
             "gather": lambda: dist.gather(x, parts if rank == 0 else None), "scatter": lambda: dist.scatter(x, parts if rank == 0 else None)}
    found, timeline = {}, vgpu.timeline()
    for name, call in calls.items():
        call()
        timeline.synchronize_device()
        dist.barrier(device_ids=[0])
        kernels = vgpu.Recording()
        timeline.recording = kernels
        call()
        timeline.recording = None
        found[name] = [(record.start_ns + record.dur_ns, record.dur_ns) for record in kernels.records if "nccl" in record.name
                       and record.category == "kernel"]
    return found


def test_each_kind_takes_what_the_model_says_after_the_last_has_come():
    first, second = each_kind(2)
    for name, (function, nbytes) in SIZES.items():
        (end, duration), = first[name]
        (other_end, other_duration), = second[name]
        assert end == other_end and min(duration, other_duration) == took_ns(function, nbytes), name
