"""The time of collectives: streams, waits, and how backward passes and their gradients' reductions overlap."""

import functools
from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import gapless
from gapless import vgpu
from gapless.vgpu.hardware.times import interconnect

CARD = "a10g"
SIZE = 1 << 20  # numbers


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


WIDTH, LAYERS = 2048, 16
OPTIONS = [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True}]


@in_group
def trained(rank, options):
    """ms of the last steps: of a network alone, and together with another rank's."""
    device, found = torch.device("vgpu:0"), []
    with vgpu.shape_only():
        network = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]).to(device)
        for made in (lambda: network, lambda: DistributedDataParallel(network, **options)):
            model = made()
            for _ in range(5):
                vgpu.timeline().synchronize_device()
                begun_ns = vgpu.timeline().host_ns
                model(torch.randn(WIDTH, WIDTH, device=device)).sum().backward()
                vgpu.timeline().synchronize_device()
                took_ns = vgpu.timeline().host_ns - begun_ns
                model.zero_grad(set_to_none=False)
            found.append(took_ns)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_ddps_reductions_run_beside_the_backward_pass(options):
    """Layers of 16 MiB, two to a bucket. Half of the reductions' time is hidden or more, though DDP copies gradients too."""
    (alone, together), second = trained(2, options)
    assert second == [alone, together]
    all_of_them = LAYERS * interconnect.course("AllReduce", 4 * WIDTH * WIDTH, [0, 0], vgpu.find_card(CARD)).ns
    assert all_of_them / LAYERS < together - alone < all_of_them / 2


@in_group
def with_hook(rank, kind):
    device = torch.device("vgpu:0")
    torch.manual_seed(0)
    with vgpu.races("raise"):
        model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]).to(device), bucket_cap_mb=0.01)
        if kind == "fp16":
            model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif kind == "in C++":
            model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
        elif kind == "PowerSGD":
            model.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
        for _ in range(4):
            model(torch.ones(8, 64, device=device) * (rank + 1)).sum().backward()
        torch.vgpu.synchronize()
        return sum(parameter.grad.abs().sum().item() for parameter in model.parameters())


@pytest.mark.parametrize("kind", ["fp16", "in C++", "PowerSGD"])
def test_what_hooks_do_behind_their_collective_is_ordered(kind):
    """No two streams use the same memory with nothing between them: an error here."""
    assert with_hook(2, kind) == pytest.approx(with_hook(2, None), rel=0.02)


@in_group
def not_awaited(rank):
    x = torch.ones(SIZE, device="vgpu:0")
    with vgpu.races("raise"):
        work = dist.all_reduce(x, async_op=True)
        with pytest.raises(vgpu.RaceError, match="written by c10d::allreduce"):
            x * 2
        work.wait()
        x * 2
    return True


LONG_NS = 50_000_000


@in_group
def sends(rank, shapes_only, *forms):
    """What each of ``forms`` takes until both have what they receive, by the stream; the sender's host is late."""
    found = []
    with vgpu.shape_only() if shapes_only else nullcontext():
        given, taken = torch.ones(SIZE, device="vgpu:0"), torch.zeros(SIZE, device="vgpu:0")
        for form in forms:
            dist.barrier(device_ids=[0])
            timeline = vgpu.timeline()
            begun_ns = timeline.host_ns
            if rank == 0:
                timeline.host_work(LONG_NS)
            if form == "one":
                dist.send(given, 1) if rank == 0 else dist.recv(taken, 0)
            elif form == "two":
                for _ in range(2):
                    dist.send(given, 1) if rank == 0 else dist.recv(taken, 0)
            else:
                both = [dist.P2POp(dist.isend, given, 1 - rank), dist.P2POp(dist.irecv, taken, 1 - rank)]
                for work in dist.batch_isend_irecv(both):
                    work.wait()
            found.append((finished() - begun_ns, timeline.host_ns - begun_ns, None if shapes_only else taken.sum().item()))
    return found


@pytest.mark.parametrize("shapes_only", [False, True])
def test_what_goes_between_two_takes_its_time_after_both_have_come(shapes_only):
    took = took_ns("SendRecv", 4 * SIZE)
    sender, receiver = sends(2, shapes_only, "one", "two", "exchange")
    assert shapes_only or receiver[0][2] == SIZE
    for (own, *_), (end, its_host, _), times in zip(sender[:2], receiver, (1, 2)):
        assert LONG_NS + times * took < own < LONG_NS + times * took + 1e6
        assert abs(end - own) < 1e6 and its_host < 1e6  # the receiver's stream waits, its host does not
    (own, *_), (end, *_) = sender[2], receiver[2]
    assert LONG_NS + took < own < LONG_NS + took + 1e6 and abs(end - own) < 1e6  # both ways at once


def test_a_result_that_nobody_has_waited_for_is_a_race():
    assert not_awaited(2) == [True, True]
