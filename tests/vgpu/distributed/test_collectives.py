"""Collectives on the virtual GPU: real values, by the backend that the group has for the device."""

import warnings

import pytest
import torch
import torch.distributed as dist

import gapless


@pytest.fixture
def group(request):
    dist.init_process_group(request.param, store=dist.HashStore(), rank=0, world_size=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    dist.destroy_process_group()


@pytest.mark.parametrize("group", ["vgpu:gloo", "cpu:gloo,vgpu:gloo", "gloo", "cuda:gloo"], indirect=True)
def test_collectives_have_real_values(group):
    device = gapless.device("vgpu")
    x = torch.arange(4.0, device=device)
    gathered = [torch.zeros(4, device=device)]
    dist.all_gather(gathered, x)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.barrier()
    assert gathered[0].device == x.device == device
    assert gathered[0].tolist() == x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("group", ["vgpu:gloo"], indirect=True)
def test_a_group_for_the_gpu_does_not_serve_the_cpu(group):
    gapless.device("vgpu")
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(1))


@pytest.mark.parametrize("group", ["cpu:gloo"], indirect=True)
def test_a_group_for_the_cpu_does_not_serve_the_gpu(group):
    x = torch.ones(1, device=gapless.device("vgpu"))
    with pytest.raises(RuntimeError, match="No backend type associated with device type vgpu"):
        dist.all_reduce(x)


def test_exact_inside_shape_only_has_values():
    device = gapless.device("vgpu")
    with gapless.vgpu.shape_only():
        with gapless.vgpu.exact():
            assert not gapless.vgpu.is_shape_only()
            assert torch.full((2,), 3.0, device=device).sum().item() == 6
        assert gapless.vgpu.is_shape_only()
        assert torch.full((2,), 3.0, device=device).sum().item() == 0
