"""Operands on the host: those that CUDA takes or wants there give the CPU's values, those that it refuses are refused."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

from gapless.vgpu.core import operands


def numbers(device):
    return torch.arange(1.0, 4.0).to(device)


@pytest.mark.parametrize("name", ["_foreach_addcdiv", "_foreach_addcdiv_", "_foreach_addcmul", "_foreach_addcmul_"])
def test_a_tensor_of_scalars_is_the_hosts(device, waits, name):
    results = []
    for where in ("cpu", device):
        given = [[numbers(where), numbers(where) + 1] for _ in range(3)]
        with waits() as found:
            out = getattr(torch, name)(*given, torch.tensor([2.0, -3.0]))
        results.append(torch.cat(given[0] if name.endswith("_") else out).tolist())
        assert not found
    assert results[0] == results[1]


@pytest.mark.parametrize("wrong", [
    lambda x: torch._foreach_addcdiv_([x], [x], [x], torch.ones(1, device=x.device)),
    lambda x: torch._foreach_addcmul([x], [x], [x], torch.ones(1, device=x.device)),
])
def test_a_tensor_of_scalars_on_the_device_is_refused(device, wrong):
    with pytest.raises(RuntimeError, match="Expected scalars to be on CPU, got vgpu:0 instead"):
        wrong(numbers(device))


@pytest.mark.parametrize("refused", [
    lambda x, n: torch.stack([x[0], n]), lambda x, n: x.index_select(0, n.long()), lambda x, n: F.embedding(n.long(), x[:, None]),
    lambda x, n: x.gather(0, n.long()), lambda x, n: x.index_add(0, n.long(), x[0]), lambda x, n: torch.searchsorted(x, n),
    lambda x, n: torch.cat([x, n[None]]), lambda x, n: n.add_(x[0]), lambda x, n: n.mul_(x.sum()),
    lambda x, n: torch.add(x, 1, out=n), lambda x, n: torch._foreach_add([x], [n[None]]),
    lambda x, n: torch.clamp(x, n), lambda x, n: torch.clamp(x, max=n), lambda x, n: x.masked_fill(n > 0, 1.0), lambda x, n: n.masked_fill(x > 1, 1.0),
    lambda x, n: torch.masked_select(x, torch.ones(3) > 0), lambda x, n: torch.polar(x, n), lambda x, n: F.nll_loss(x, n.long()),
], ids=range(18))
def test_what_cuda_refuses(device, refused):
    number = torch.tensor(0.0)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        refused(numbers(device), number)
    assert number == 0, "nothing was written"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_a_mask_of_numbers_is_refused(device, dtype):
    with pytest.raises(RuntimeError, match="expected BoolTensor for mask"):
        numbers(device).masked_select(torch.ones(3, dtype=dtype, device=device))


def test_a_meta_tensor_is_called_one(device):
    with pytest.raises(RuntimeError, match="found at least two devices, vgpu:0 and meta!.*has no values"):
        numbers(device) + torch.ones(3, device="meta")


def test_a_kernel_takes_one_number_of_the_host(device):
    x, low, high = numbers(device), torch.tensor(1.5), torch.tensor(2.5)
    assert torch.addcmul(x, x, low).tolist() == [2.5, 5.0, 7.5]
    with pytest.raises(RuntimeError, match="too many CPU scalars"):
        torch.addcmul(x, low, high)


@pytest.mark.parametrize("taken", [
    lambda x, n: x + n, lambda x, n: n - x, lambda x, n: x.add_(n), lambda x, n: x > n, lambda x, n: x.eq_(n), lambda x, n: x ** n,
    lambda x, n: torch.maximum(x, n), lambda x, n: torch.where(x > n, x, n), lambda x, n: x.masked_fill(x > 1, n),
    lambda x, n: x.index_fill(0, torch.zeros(1, dtype=torch.long, device=x.device), n), lambda x, n: x.fill_(n), lambda x, n: x.copy_(n),
    lambda x, n: torch.lerp(x, x + 1, n), lambda x, n: torch.addcmul(x, n, x), lambda x, n: F.mse_loss(x[0], n), lambda x, n: torch.atan2(x, n),
    lambda x, n: x.index_put((x > 1,), n), lambda x, n: torch.dist(x, n), lambda x, n: torch.logical_and(x, n), lambda x, n: torch.hypot(x, n),
    lambda x, n: torch.isclose(x, n), lambda x, n: torch._foreach_mul([x], n)[0], lambda x, n: torch._foreach_add([x], n)[0],
    lambda x, n: torch.xlogy(x, n), lambda x, n: torch.bucketize(n.item(), x), lambda x, n: torch.linspace(n, n + 1, 3, device=x.device),
    lambda x, n: torch.rsub(x, n), lambda x, n: torch.fmod(x, n), lambda x, n: torch.floor_divide(x, n), lambda x, n: x.bernoulli_(n - 1),
    lambda x, n: F.huber_loss(x[0], n), lambda x, n: F.smooth_l1_loss(x[0], n), lambda x, n: torch.copysign(x, n), lambda x, n: x.heaviside(n),
], ids=range(34))
def test_what_cuda_takes(device, taken):
    torch.manual_seed(0)
    expected = taken(numbers("cpu"), torch.tensor(2.0)).tolist()
    torch.manual_seed(0)
    assert taken(numbers(device), torch.tensor(2.0)).tolist() == expected


def test_each_wanted_operand_is_a_tensor_of_the_schema():
    for func, (place, _) in operands.WANTED.items():
        assert str(func._schema.arguments[place].type) == "Tensor"


def test_only_the_shape_of_a_template_is_asked_for(device):
    x = numbers(device).resize_as_(torch.empty(1, 2))
    assert x.tolist() == [[1.0, 2.0]] and x.resize_as_(torch.empty(3, device=device)).shape == (3,)
    last = torch.empty(2, 3, 4, 5, device=device, memory_format=torch.channels_last)
    assert x.resize_as_(last, memory_format=torch.preserve_format).stride() == last.stride()


def test_shapes_are_compared_across_devices(device):
    primal, host = torch.ones(2, 1, device=device), torch.zeros(2, 1)
    with forward_ad.dual_level():
        host.copy_(forward_ad.make_dual(primal, torch.full_like(primal, 5.0)))
        assert forward_ad.unpack_dual(host).tangent.tolist() == [[5.0], [5.0]]


def put(values, index):
    """A tensor on the host, with ``values`` at ``index``."""
    target = torch.zeros(3)
    target[index] = values
    return target.tolist()


def test_a_number_of_the_device_is_written_into_a_tensor_on_the_host_and_waited_for(device, waits):
    five = torch.tensor(5.0, device=device)
    for index in (torch.tensor([0, 2]), torch.tensor([True, False, True])):
        with waits() as found:
            assert put(five, index) == [5, 0, 5]
        assert len(found) == 1
    assert torch.zeros(3).index_put((torch.tensor([1, 1]),), torch.tensor(2.0, device=device), True).tolist() == [0, 4, 0]


@pytest.mark.parametrize("write, says", [
    (lambda device: put(torch.ones(2, device=device), torch.tensor([0, 2])), "at least two devices"),
    (lambda device: put(torch.ones(1), torch.tensor([0, 2], device=device)), "indices should be either on cpu"),
    (lambda device: put(torch.ones(1), torch.ones(3, device=device) > 0), "indices should be either on cpu"),
])
def test_nothing_else_of_the_device_is(device, write, says):
    with pytest.raises(RuntimeError, match=says):
        write(device)
