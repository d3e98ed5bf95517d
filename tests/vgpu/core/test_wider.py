"""Dtypes that CUDA has and the CPU lacks: the wider dtype's values, in the declared dtype, its bytes and its time."""

import pytest
import torch
import torch.nn.functional as F

import gapless
from gapless import vgpu
from gapless.vgpu.core.dispatch import Operator

HALVES = (torch.float16, torch.bfloat16)


@pytest.fixture
def device():
    return gapless.device("vgpu:a10g")


def near(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    unit = torch.finfo(found.dtype).eps
    return torch.allclose(found.cpu().to(wanted.dtype), wanted, rtol=2 * unit, atol=unit)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_pool_of_halves_with_its_gradient(device, dtype):
    x = torch.arange(256.0).reshape(1, 4, 4, 4, 4).sin().to(dtype)
    wide, narrow = x.float().requires_grad_(), x.to(device).requires_grad_()
    wanted, found = (F.avg_pool3d(each, 2) for each in (wide, narrow))
    assert found.dtype == dtype and near(found, wanted.detach())
    wanted.sum().backward()
    found.sum().backward()
    assert narrow.grad.dtype == dtype and near(narrow.grad, wide.grad)


def test_the_card_does_the_work_of_the_declared_dtype(device):
    """Half the bytes of float32: half the time of a kernel that moves them, and no kernel for a cast."""
    events = {}
    for dtype in (torch.float32, torch.float16):
        x = torch.ones(8, 64, 32, 32, 32, device=device, dtype=dtype)
        torch.vgpu.synchronize()
        with gapless.profiler.profile(device=device) as profiler:
            out = F.avg_pool3d(x, 2)
        assert out.allocation.nbytes == 8 * 64 * 16**3 * dtype.itemsize
        del out
        events[dtype], = (each for each in profiler.trace.events if each.get("cat") == "kernel")
    assert events[torch.float16]["name"] == events[torch.float32]["name"]
    assert 1.8 < events[torch.float32]["dur"] / events[torch.float16]["dur"] < 2.2


def test_integers_are_counted_in_whole_numbers(device):
    """Mixtral counts the tokens of its experts so. A float's division would put 29 of 0…100 into another bin."""
    x = torch.arange(101, device=device)
    assert torch.histc(x, bins=100, min=0, max=100).tolist() == [1] * 99 + [2]
    assert torch.histc(x.int(), bins=4).tolist() == [25, 25, 25, 26]
    out = torch.zeros(4, dtype=torch.int32, device=device)
    assert torch.histc(x.int(), bins=4, min=0, max=7, out=out) is out and out.tolist() == [2, 2, 2, 2]


def test_other_dtypes(device):
    assert torch.tensor([True, False], device=device).abs().tolist() == [True, False]
    assert torch.eye(3, dtype=torch.bool, device=device).trace().item() == 3
    z = torch.tensor([3 + 4j, complex("nan")], dtype=torch.complex32)
    assert z[:1].to(device).exp().dtype == torch.complex32
    assert torch.allclose(z[:1].to(device).exp().cpu().to(torch.complex64), z[:1].to(torch.complex64).exp(), rtol=1e-2)
    assert z.to(torch.complex64).to(device).nansum().item() == 3 + 4j


def test_in_place_and_out(device):
    x = torch.tensor([1.0, 2.0], dtype=torch.complex64)
    narrow = x.to(torch.complex32).to(device)
    again = narrow
    view = narrow[1:]
    assert narrow.exp_() is again and near(narrow, x.exp()) and near(view, x[1:].exp())
    out = torch.zeros(0, dtype=torch.complex32, device=device)
    assert torch.sin(x.to(torch.complex32).to(device), out=out) is out and near(out, x.sin())


def test_a_generator_moves_on_as_if_nothing_had_been_tried(device):
    """And what an operator writes before it raises is undone (``rrelu`` writes its noise)."""
    state = []
    for dtype in (torch.float32, torch.float16, torch.float16):
        Operator.known.pop(id(torch.ops.aten.rrelu_with_noise.default), None) if not state else None
        torch.manual_seed(3)
        F.rrelu(torch.full((50,), -1.0, dtype=dtype, device=device), training=True)
        state.append(torch.rand(1).item())
    assert len(set(state)) == 1


def test_halves_that_the_cpu_computes_badly(device):
    x = (torch.arange(9.0).reshape(3, 3) / 8).half()
    assert near(torch.linalg.matrix_exp(x.to(device)), torch.linalg.matrix_exp(x.float()))
    image, grid = torch.arange(36.0).reshape(1, 1, 6, 6).half(), torch.linspace(-0.9, 0.9, 18).reshape(1, 3, 3, 2).half()
    wanted = F.grid_sample(image.float(), grid.float(), align_corners=False)
    assert near(F.grid_sample(image.to(device), grid.to(device), align_corners=False), wanted)


@pytest.mark.parametrize("call", [lambda x: torch.linalg.inv(x), lambda x: torch.cdist(x, x), lambda x: x & x])
def test_what_cuda_has_in_no_half_stays_an_error(device, call):
    with pytest.raises((RuntimeError, NotImplementedError), match="Half|Low precision"):
        call(torch.eye(3, dtype=torch.float16, device=device))


def test_without_values(device):
    with vgpu.shape_only():
        assert F.avg_pool3d(torch.ones(1, 1, 4, 4, 4, dtype=torch.float16, device=device), 2).dtype == torch.float16


def test_convolutions_in_float16_are_summed_in_float32(device):
    x, weight = torch.rand(2, 8, 6, 6).half(), torch.rand(4, 8, 3, 3).half()
    found = F.conv2d(x.to(device), weight.to(device)).cpu()
    assert found.dtype == torch.float16 and torch.equal(found, F.conv2d(x.float(), weight.float()).half())
