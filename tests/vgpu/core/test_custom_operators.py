"""Operators that a program makes with ``torch.library.custom_op``: their Python runs on the device's tensors, as on CUDA."""

import uuid

import pytest
import torch

from gapless import vgpu


def made(function, **options):
    name = f"gapless_tests::f{uuid.uuid4().hex}"
    return torch.library.custom_op(name, function, mutates_args=options.pop("mutates_args", ()), **options)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x + x


def test_values_kernels_and_gradients(device):
    operator = made(doubled)
    operator.register_autograd(lambda ctx, grad: 2 * grad)
    x = torch.tensor([1.0, -2.0], device=device, requires_grad=True)
    before = vgpu.timeline().kernel_count
    y = operator(x)
    assert vgpu.timeline().kernel_count == before + 1 and y.device == device and y.tolist() == [2, -4]
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_what_it_reads_is_a_wait(device, waits):
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x / x.sum().item()

    x = torch.tensor([1.0, 3.0], device=device)
    with waits() as found:
        y = made(scaled)(x)
    assert len(found) == 1 and y.tolist() == [0.25, 0.75]


def test_it_may_write_to_its_arguments(device):
    def shifted(x: torch.Tensor) -> None:
        x.add_(1)

    x = torch.zeros(3, device=device)
    assert made(shifted, mutates_args=["x"])(x) is None
    assert x.tolist() == [1, 1, 1]


def test_without_values(device):
    with vgpu.shape_only():
        assert made(doubled)(torch.empty(10**7, device=device)).shape == (10**7,)


@pytest.mark.parametrize("kinds, works", [("cuda", True), (("cpu", "cuda"), True), ("cpu", False)])
def test_it_needs_an_implementation_for_the_device(device, kinds, works):
    operator = made(doubled, device_types=kinds)
    x = torch.ones(2, device=device)
    if works:
        assert operator(x).tolist() == [2, 2]
    else:
        with pytest.raises(NotImplementedError, match="implemented for cpu, and neither for vgpu nor for cuda"):
            operator(x)


def test_made_again_it_is_the_new_one(device):
    x = torch.ones(2, device=device)
    for factor in (2, 3):
        def times(x: torch.Tensor) -> torch.Tensor:
            return x * factor

        assert torch.library.custom_op("gapless_tests::again", times, mutates_args=())(x).tolist() == [factor] * 2
