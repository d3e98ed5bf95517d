"""Which process groups serve the virtual GPU, and what two processes send each other: values, works, waits."""

import datetime
import math

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as with_gradients

from gapless import vgpu

from .. import together


def numbers(rank, device, count=4, dtype=torch.float32):
    return (torch.arange(count, dtype=torch.float32) + 10 * rank).to(dtype).to(device)


def reduced(op="SUM", dtype=torch.float32):
    def program(rank, device):
        x = numbers(rank, device, dtype=dtype)
        dist.all_reduce(x, getattr(dist.ReduceOp, op))
        return x

    return program


def premultiplied(rank, device):
    """Each process's values times its factor, summed: NCCL can, Gloo cannot."""
    factor, x, whole = 0.5 * (rank + 1), numbers(rank, device), torch.empty(2, device=device)
    if device.type == "cpu":
        given = x * factor
        dist.all_reduce(given)
        return [given, given[2 * rank:][:2], x]
    summed, op = x.clone(), dist._make_nccl_premul_sum(factor)
    dist.all_reduce(summed, op)
    dist.reduce_scatter_tensor(whole, x, dist._make_nccl_premul_sum(torch.tensor(factor, device=device)))
    assert op == dist.ReduceOp.PREMUL_SUM
    return [summed, whole, x]


def of_several_sizes(rank, device):
    """What each process gives has a size of its own: NCCL can, Gloo cannot."""
    every = [[numbers(each, device, count=6, dtype=dtype).reshape(2, 3).t()[:each + 1] for each in range(2)]
             for dtype in (torch.float32, torch.bool)]
    if device.type == "cpu":
        return every
    gathered = [[torch.zeros_like(each) for each in some] for some in every]
    for outputs, some in zip(gathered, every):
        dist.all_gather(outputs, some[rank].contiguous(), async_op=True).wait()
    return gathered


def with_gaps(rank, device):
    """What NCCL refuses to take."""
    x, dense = numbers(rank, device, 6).reshape(2, 3).t(), torch.zeros(3, 2, device=device)
    uses = [lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 0), lambda: dist.all_gather([dense, dense.clone()], x),
            lambda: dist.all_to_all_single(dense, x), lambda: dist.reduce_scatter(x, [dense, dense])]
    found = []
    for use in uses:
        try:
            found.append(device.type == "cpu" or use() is not None)  # there it is CUDA's source that is asked
        except ValueError as error:
            found.append(str(error) == "Tensors must be contiguous")
    kept = numbers(rank, device, 16).reshape(1, 2, 2, 4)
    if device.type != "cpu":  # Gloo refuses this, NCCL does not
        kept = kept.contiguous(memory_format=torch.channels_last)
    dist.all_reduce(kept)
    return [found, kept.contiguous()]


def moved(dtype):
    def program(rank, device):
        x = numbers(rank, device, dtype=dtype)
        gathered, swapped = torch.empty(8, dtype=dtype, device=device), torch.empty_like(x)
        dist.all_gather_into_tensor(gathered, x)
        dist.all_to_all_single(swapped, x, [1, 3][::1 - 2 * rank], [1, 3][::1 - 2 * rank])
        dist.broadcast(x, 1)
        return [x, gathered, swapped]

    return program


def exchange(given, taken):
    """``all_to_all``; on the CPU by single messages, as PyTorch 2.11's Gloo has no more."""
    if taken[0].device.type != "cpu":
        dist.all_to_all(taken, given)
        return taken
    rank = dist.get_rank()
    works = [dist.isend(given[1 - rank], 1 - rank), dist.irecv(taken[1 - rank], 1 - rank)]
    taken[rank].copy_(given[rank])
    for work in works:
        work.wait()
    return taken


def uneven(dtype):
    """Lists whose tensors have sizes of their own, none among them, in one and two dimensions."""
    def program(rank, device):
        sizes = [[(2, 3), (0, 5)], [(7,), (1, 4)]]  # [from][to]
        given = [numbers(rank + 2 * to, device, 7, dtype)[:math.prod(sizes[rank][to])].reshape(sizes[rank][to]) for to in range(2)]
        return exchange(given, [torch.zeros(sizes[source][rank], dtype=dtype, device=device) for source in range(2)])

    return program


def lists(rank, device):
    gathered = [torch.zeros(4, device=device) for _ in range(2)]
    dist.all_gather(gathered, numbers(rank, device))
    exchanged = exchange([numbers(rank, device), numbers(rank + 2, device)], [torch.zeros(4, device=device) for _ in range(2)])
    summed, from_first, at_first = (torch.zeros(4, device=device) for _ in range(3))
    dist.reduce_scatter(summed, [numbers(rank, device), numbers(rank + 5, device)])
    dist.scatter(from_first, [numbers(3, device), numbers(4, device)] if rank == 0 else None)
    collected = [torch.zeros(4, device=device) for _ in range(2)] if rank == 0 else None
    dist.gather(numbers(rank, device), collected)
    at_first = numbers(rank, device)
    dist.reduce(at_first, 0, dist.ReduceOp.AVG)
    return [gathered, exchanged, summed, from_first, collected, at_first if rank == 0 else None]


def of_two_dimensions(rank, device):
    x = numbers(rank, device, 8).reshape(4, 2)
    out = torch.zeros(2, 2, device=device)
    dist.reduce_scatter_tensor(out, x)
    flat = torch.zeros(1, 16, device=device)
    if device.type == "cpu":  # Gloo asks for the first dimension, NCCL does not
        dist.all_gather_into_tensor(flat.view(8, 2), x)
    else:
        dist.all_gather_into_tensor(flat, x)
    return [out, flat]


def between_two(rank, device):
    x, y = numbers(rank, device), torch.zeros(4, device=device)
    works = [dist.isend(x, 1 - rank), dist.irecv(y, 1 - rank)]
    for work in works:
        work.wait()
    z = torch.zeros(4, device=device)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, y, 1 - rank), dist.P2POp(dist.irecv, z, 1 - rank)]):
        work.wait()
    source = None
    if rank == 0:
        dist.send(z, 1)
    else:
        source = dist.recv(z)
    return [y, z, source]


def coalesced(rank, device):
    given = [numbers(rank, device), numbers(rank + 1, device)]
    gathered, received = [torch.zeros(8, device=device) for _ in given], torch.zeros(4, device=device)
    if device.type == "cpu":  # Gloo coalesces nothing
        for x, out in zip(given, gathered):
            dist.all_reduce(x)
            dist.all_gather_into_tensor(out, x)
        return [given, gathered, numbers(1 - rank, device)]
    with dist._coalescing_manager(device=device):
        for x in given:
            dist.all_reduce(x)
    with dist._coalescing_manager(device=device, async_ops=True) as works:
        for x, out in zip(given, gathered):
            dist.all_gather_into_tensor(out, x)
    works.wait()
    with dist._coalescing_manager(device=device, async_ops=True) as works:
        dist.isend(numbers(rank, device), 1 - rank)
        dist.irecv(received, 1 - rank)
    works.wait()
    return [given, gathered, received]


def works(rank, device):
    x = numbers(rank, device)
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2).wait()
    while not work.is_completed():
        pass
    work.wait()
    return [x, doubled]


def objects(rank, device):
    gathered, sent, scattered = [None, None], [{"rank": rank}, rank], [None]
    dist.all_gather_object(gathered, {"rank": rank})
    dist.broadcast_object_list(sent, 1)
    dist.scatter_object_list(scattered, [5, 6] if rank == 0 else None)
    return [gathered, sent, scattered]


def subgroups(rank, device):
    groups, x = [dist.new_group([0]), dist.new_group([1]), dist.new_group([0, 1])], numbers(rank, device)
    dist.all_reduce(x, group=groups[rank])
    dist.all_reduce(x, group=groups[2])
    return x


def destroyed(rank, device):
    """A group that this process is no member of is destroyed without effect."""
    groups, x = [dist.new_group([0]), dist.new_group([0, 1])], numbers(rank, device)
    for group in groups:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.all_reduce(x, group=group)
        dist.destroy_process_group(group)
    return x


def functions(rank, device):
    x, world = numbers(rank, device), dist.group.WORLD
    gathered = functional.all_gather_tensor(x, 0, world)
    return [functional.all_reduce(x, "avg", world) * 1, gathered * 1, functional.reduce_scatter_tensor(gathered, "sum", 0, world) * 1,
            functional.broadcast(x, 1, world) * 1, functional.all_to_all_single(x, None, None, world) * 1]


def gradients(rank, device):
    x, world = numbers(rank, device).requires_grad_(), dist.group.WORLD
    gathered = functional.all_gather_tensor_autograd(x, 0, world)
    (functional.reduce_scatter_tensor_autograd(gathered * gathered, "sum", 0, world) * 2).sum().backward()
    y = numbers(rank, device).requires_grad_()
    (with_gradients.all_reduce(y, group=world).sum() + with_gradients.all_gather(y, group=world)[0].square().sum()).backward()
    return [x.grad, y.grad]


def waits_of(rank, device):
    """How often each of these makes the host wait."""
    if device.type == "cpu":  # what NCCL does, from its sources: gapless.vgpu.distributed.collectives
        return {"all_reduce": 0, "async": 0, "barrier": 1, "a timeout": 1, "send": 0}
    x, found = numbers(rank, device), {}
    uses = {"all_reduce": lambda: dist.all_reduce(x), "async": lambda: dist.all_reduce(x, async_op=True).wait(),
            "barrier": dist.barrier,
            "a timeout": lambda: dist.all_reduce(x, async_op=True).wait(datetime.timedelta(seconds=9)),
            "send": lambda: dist.send(x, 1) if rank == 0 else dist.recv(x, 0)}
    hooks = vgpu.timeline().wait_hooks
    for name, use in uses.items():
        waits = []
        hooks.append(waits.append)
        use()
        hooks.remove(waits.append)
        found[name] = len(waits)
    return found


PROGRAMS = {
    **{f"all_reduce {op}": reduced(op) for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX")},
    **{f"all_reduce of {dtype}": reduced(dtype=dtype) for dtype in (torch.bfloat16, torch.int64, torch.bool, torch.complex64)},
    **{f"moved {dtype}": moved(dtype) for dtype in (torch.float32, torch.float16, torch.bool, torch.complex64, torch.uint8)},
    "with gaps": with_gaps, "premultiplied": premultiplied, "of several sizes": of_several_sizes,
    **{f"uneven {dtype}": uneven(dtype) for dtype in (torch.float32, torch.bool, torch.complex64, torch.bfloat16)},
    "lists": lists, "of two dimensions": of_two_dimensions, "between two": between_two, "coalesced": coalesced, "works": works,
    "objects": objects, "subgroups": subgroups, "destroyed": destroyed, "functions": functions, "gradients": gradients, "waits": waits_of,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_processes_have_the_cpus_values(name):
    for found in together.outcomes(__name__):
        assert not isinstance(found[name]["cpu"], str), found[name]["cpu"]
        torch.testing.assert_close(found[name]["vgpu"], found[name]["cpu"])


# -- groups of one process --------------------------------------------------------------------------


@pytest.fixture
def group(request, device):
    options = dict(request.param)
    if options.pop("bound", False):
        options["device_id"] = device
    dist.init_process_group(**options, store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


GPU_ONLY = [{}, {"bound": True}, {"backend": "vccl"}, {"backend": "vgpu:vccl"}]
if not torch.cuda.is_available():
    GPU_ONLY += [{"backend": "nccl"}, {"backend": "nccl", "bound": True}]


@pytest.mark.parametrize("group", GPU_ONLY, indirect=True, ids=str)
def test_a_group_for_the_gpu_alone(group, device):
    x = torch.ones(2, device=device)
    dist.all_reduce(x)
    dist.barrier()
    assert x.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(1))


@pytest.mark.parametrize("group", [{"backend": "cpu:gloo,vgpu:vccl"}, {"backend": "gloo"}], indirect=True, ids=str)
def test_a_group_for_both(group, device):
    x, y = torch.ones(2, device=device), torch.ones(2)
    dist.all_reduce(x)
    dist.all_reduce(y)
    assert x.tolist() == y.tolist() == [1, 1]


def test_the_default_backend(device):
    assert dist.get_default_backend_for_device(device) == "vccl"


@pytest.mark.parametrize("group", [{}], indirect=True, ids=str)
def test_without_values_a_collective_is_done_at_once(group, device):
    with vgpu.shape_only():
        x, out = torch.ones(2, device=device), torch.zeros(2, device=device)
        dist.all_gather_into_tensor(out, x)
        work = dist.all_reduce(x, async_op=True)
        assert work.is_completed() and work.wait() and work.get_future().value()[0] is x
