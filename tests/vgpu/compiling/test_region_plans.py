"""Which kernels a compiled graph becomes: merged, kept whole, ordered; values and gradients as uncompiled."""


import torch
import torch.nn.functional as F
from torch import nn

from ..compiled import BYTES, COUNT, compiled, gelu, lasts_ns, names, on_device, same_gradients


def test_gelu_is_one_kernel_each_way(recorded):
    forward, backward = same_gradients(gelu, on_device(COUNT), recorded)
    assert names(forward) == ["triton_poi_fused_add_mul_pow_tanh"]
    assert forward[0].dur_ns == lasts_ns("pointwise", 2 * BYTES, 1)
    # Backward reads the gradient and x, computes all else again, and writes x's gradient.
    assert len(backward) == 1 and backward[0].dur_ns == lasts_ns("pointwise", 3 * BYTES, 1)


def test_a_softmax_with_its_mask_and_dropout(recorded):
    mask = torch.zeros(4, 1, 1, 64, device="vgpu:0")
    forward, backward = same_gradients(lambda x: F.dropout(torch.softmax(x * 0.125 + mask, -1), 0.1),
                                       on_device((4, 8, 64, 64)), recorded)
    assert len(forward) == 2 and "distribution" in forward[0].name  # the seeds come first
    assert forward[1].name.startswith("triton_per_fused_")
    assert len(backward) == 1


def test_a_layer_norm_of_a_sum_with_dropout(recorded):
    def function(x, residual, weight, bias):
        return F.layer_norm(F.dropout(x, 0.1) + residual, (256,), weight, bias)

    forward, backward = same_gradients(function, on_device((2048, 256), (2048, 256), (256,), (256,)), recorded)
    assert len(forward) == 2
    # The input's gradient by rows; those of weight and bias down the columns, in two stages.
    assert len(backward) == 4 and all("layer_norm_backward" in kernel.name for kernel in backward)


def test_convolution_norm_and_relu_in_training(recorded):
    norm = nn.BatchNorm2d(128, device="vgpu:0")
    other = nn.BatchNorm2d(128, device="vgpu:0")
    weight, x = on_device((128, 64, 3, 3), (8, 64, 16, 16))
    wanted = F.relu(norm(F.conv2d(x, weight, padding=1)))
    found, kernels = recorded(compiled, lambda: F.relu(other(F.conv2d(x, weight, padding=1))))
    assert torch.equal(found.cpu(), wanted.cpu())
    assert torch.equal(norm.running_var.cpu(), other.running_var.cpu()) and other.num_batches_tracked.item() == 1
    convolutions = [kernel.name for kernel in kernels if "convolution" in kernel.name]
    assert len(convolutions) == 1 and not any("nchwToNhwc" in kernel.name for kernel in kernels)
    assert sum("relu" in kernel.name for kernel in kernels) == 1
    assert names(kernels).count("triton_poi_fused_copy") == 2  # images and weight, into channels-last order


def test_a_product_interrupts_a_chain(recorded):
    forward, _ = same_gradients(lambda x, weight: torch.cos(torch.mm(torch.sin(x) * 2, weight)) + 1,
                                on_device((64, 64), (64, 64)), recorded)
    assert [name.split("_")[0] for name in names(forward)] == ["triton", "gemm", "triton"]


def test_what_shares_inputs_is_one_kernel(recorded):
    forward, backward = same_gradients(lambda x, y: (x.sin() + y) * (x.cos() * y), on_device(COUNT, COUNT), recorded)
    assert len(forward) == len(backward) == 1
    assert forward[0].dur_ns == lasts_ns("pointwise", 3 * BYTES, 1)


def test_a_diamond_around_a_product(recorded):
    def function(x, weight):
        left = torch.sin(x)
        return torch.mm(left, weight) + left * 2

    forward, _ = same_gradients(function, on_device((64, 64), (64, 64)), recorded)
    assert [name.split("_")[0] for name in names(forward)] == ["triton", "gemm", "triton"]


def test_in_place(recorded):
    def function(x):
        y = x * 2
        y.add_(1).mul_(x)
        y[0] = 3
        return y + y.sum()

    x, = on_device((16, 16), grad=False)
    found, _ = recorded(compiled, function, x)
    assert torch.equal(found.cpu(), function(x).cpu())
    running = torch.zeros(16, 16, device="vgpu:0")
    _, kernels = recorded(compiled, lambda: running.mul_(0.9).add_(x, alpha=0.1))
    assert len(kernels) == 1 and torch.equal(running.cpu(), (0 * x).mul_(0.9).add_(x, alpha=0.1).cpu())


def test_a_step_of_sgd_over_many_parameters(recorded):
    parameters, gradients = on_device(*[(64, 64)] * 5, grad=False), on_device(*[(64, 64)] * 5, grad=False)
    wanted = [parameter - 0.1 * (gradient + 0.01 * parameter) for parameter, gradient in zip(parameters, gradients)]

    def step():
        torch._foreach_add_(gradients, parameters, alpha=0.01)
        torch._foreach_add_(parameters, gradients, alpha=-0.1)

    _, kernels = recorded(compiled, step)
    assert len(kernels) == 1 and kernels[0].name.startswith("triton_for_fused_")
    for parameter, value in zip(parameters, wanted):
        torch.testing.assert_close(parameter.cpu(), value.cpu())


