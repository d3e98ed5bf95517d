"""Multi-tensor operators that leave their fast path."""

import pytest
import torch

from gapless import vgpu


def test_copies_from_and_to_the_host(device, waits):
    targets, sources = [torch.zeros(2, 3, device=device), torch.zeros((), device=device)], [torch.ones(2, 3), torch.tensor(4.0)]
    with waits() as found:
        torch._foreach_copy_(targets, sources)
    assert len(found) == 2 and targets[0].tolist() == [[1.0] * 3] * 2 and targets[1].item() == 4
    back = [torch.zeros(2, 3), torch.zeros(())]
    with waits() as found:
        torch._foreach_copy_(back, targets)
    assert len(found) == 2 and torch.equal(back[0], sources[0]) and back[1] == 4


def test_copies_on_the_device_are_one_operator(device, waits):
    targets = [torch.zeros(3, device=device), torch.zeros(2, device=device)]
    with waits() as found:
        torch._foreach_copy_(targets, [torch.ones(3, device=device), torch.ones(2, device=device)])
    assert not found and targets[1].tolist() == [1, 1]


def test_numbers_of_their_own_have_a_kernel_each(device):
    """A list of tensors by a list of numbers on the device leaves the fast path; equal shapes keep it."""
    for shapes, kernels in (([(), ()], 2), ([(3,), (2,)], 1)):
        targets = [torch.ones(3, device=device), torch.ones(2, device=device)]
        others = [torch.full(shape, 2.0, device=device) for shape in shapes]
        before = vgpu.timeline().kernel_count
        torch._foreach_mul_(targets, others)
        sums = torch._foreach_add(targets, others, alpha=3)
        assert vgpu.timeline().kernel_count - before == 2 * kernels
        assert [each.tolist() for each in (*targets, *sums)] == [[2.0] * 3, [2.0] * 2, [8.0] * 3, [8.0] * 2]


def test_lists_of_more_than_one_dtype_have_a_kernel_for_each_tensor(device):
    """Also what is clipped, whose gradients PyTorch divides by dtype first."""
    def kernels(function, *args, **options):
        before = vgpu.timeline().kernel_count
        function(*args, **options)
        return vgpu.timeline().kernel_count - before

    def made(*dtypes):
        return [torch.full((4,), 2.0, device=device, dtype=dtype) for dtype in dtypes]

    alike, mixed = made(*3 * [torch.float32]), made(torch.float32, torch.float16, torch.float32)
    assert kernels(torch._foreach_mul_, alike, 0.5) == 1 and kernels(torch._foreach_mul_, mixed, 0.5) == 3
    assert [each.tolist() for each in mixed] == [[1.0] * 4] * 3 and mixed[1].dtype == torch.float16
    assert kernels(torch._foreach_norm, alike) == 2 and kernels(torch._foreach_norm, mixed) == 3
    assert [norm.item() for norm in torch._foreach_norm(mixed, 2, torch.float32)] == [2.0] * 3
    assert kernels(torch._foreach_add_, alike, mixed, alpha=2) == 3
    assert kernels(torch._foreach_lerp_, alike, made(*3 * [torch.float32]), 0.5) == 1 and alike[0].tolist() == [2.5] * 4
    assert kernels(torch._foreach_mul_, alike, torch.ones((), device=device)) == 1
    assert kernels(torch._foreach_mul_, alike, torch.ones((), device=device, dtype=torch.float64)) == 3
    assert kernels(torch._foreach_zero_, mixed) == 3 and mixed[1].tolist() == [0.0] * 4
    transposed = [torch.zeros(3, 2, device=device).t() for _ in range(2)]
    assert kernels(torch._foreach_add_, transposed, [torch.ones(2, 3, device=device) for _ in range(2)]) == 2


def test_clipping_takes_the_multi_tensor_path_of_itself(device, waits):
    parameters = [torch.nn.Parameter(torch.ones(5, device=device)) for _ in range(20)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    before = vgpu.timeline().kernel_count
    with waits() as found:
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    assert vgpu.timeline().kernel_count - before < 10 and not found
    assert round(norm.item(), 4) == 10.0 and round(parameters[0].grad[0].item(), 4) == 0.1


@pytest.mark.parametrize("name", ["_foreach_maximum", "_foreach_minimum"])
def test_the_larger_of_a_number_and_tensors_of_two_dtypes(name, device):
    def found(device):
        tensors = [torch.tensor([1.0, 5.0], device=device), torch.tensor([2.0, 4.0], dtype=torch.float64, device=device)]
        made = [getattr(torch, name)(tensors, 3.0), getattr(torch, name)(tensors, tensors[::-1])]
        getattr(torch, f"{name}_")(tensors, 4.5)
        return [[(each.dtype, each.tolist()) for each in some] for some in (*made, tensors)]

    assert found(device) == found("cpu")


def test_lists_may_hold_tensors_of_the_host_too_but_no_pair_of_two_devices(device):
    there, here = torch.ones(3, device=device), torch.full((2,), 2.0)
    assert [each.tolist() for each in torch._foreach_add([there, here], [there, here])] == [[2.0] * 3, [4.0] * 2]
    torch._foreach_mul_([there, here], 3.0)
    assert there.tolist() == [3.0] * 3 and here.tolist() == [6.0] * 2
    assert [norm.device.type for norm in torch._foreach_norm([there, here])] == ["vgpu", "cpu"]
    with pytest.raises(RuntimeError, match="at least two devices"):
        torch._foreach_add([there], [torch.ones(3)])
