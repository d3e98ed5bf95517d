import pytest
import torch

from gapless.vgpu import CARDS
from gapless.vgpu.hardware.kernels import costs
from gapless.vgpu.hardware.times import convolutions
from gapless.vgpu.hardware.times.products import Product, seconds

CARD = CARDS["a100"]


def kernels(name, *args, out=None, **kwargs):
    return costs.kernels(name, args, kwargs, out)


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def test_a_matrix_product_is_a_problem_of_its_sizes():
    left, right = meta(40, 50), meta(50, 60)
    for name, args, matrices in (("mm", (left, right), 1), ("addmm", (meta(60), left, right), 1),
                                 ("bmm", (left.expand(7, 40, 50), right.expand(7, 50, 60)), 7)):
        kernel, = kernels(name, *args, out=meta(40, 60))
        assert kernel.problem == Product(matrices, 40, 60, 50, 4)
        assert kernel.flops == 2 * matrices * 40 * 60 * 50
        assert kernel.duration_ns(CARD) == round(seconds(kernel.problem, CARD) * 1e9)


def test_the_layout_follows_from_the_strides():
    x, weight = meta(40, 50), meta(60, 50)
    forward, = kernels("addmm", meta(60), x, weight.t(), out=meta(40, 60))
    backward, = kernels("mm", meta(40, 60), weight, out=meta(40, 50))
    gradient, = kernels("mm", meta(40, 60).t(), x, out=meta(60, 50))
    assert [kernel.problem.layout for kernel in (forward, backward, gradient)] == ["tn", "nn", "nn"]


@pytest.mark.parametrize("features, classes, aligned", [(512, 16, True), (512, 10, False), (501, 16, False), (500, 12, True)])
def test_half_precision_rows_of_odd_bytes_are_noticed(features, classes, aligned):
    x, weight, grad = (meta(*shape, dtype=torch.float16) for shape in ((64, features), (classes, features), (64, classes)))
    for left, right, shape in ((x, weight.t(), (64, classes)), (grad, weight, (64, features)), (grad.t(), x, (classes, features))):
        kernel, = kernels("mm", left, right, out=meta(*shape, dtype=torch.float16))
        assert kernel.problem.aligned is aligned


def test_a_product_of_nothing_is_no_kernel_and_a_sum_of_nothing_fills():
    assert kernels("mm", meta(0, 4), meta(4, 5), out=meta(0, 5)) == []
    filled, = kernels("mm", meta(3, 0), meta(0, 5), out=meta(3, 5))
    assert (filled.kind, filled.bytes, filled.problem) == ("pointwise", 60, None)


def test_a_sum_of_products_adds_one_at_a_time():
    added = kernels("addbmm", meta(4, 5), meta(3, 4, 6), meta(3, 6, 5), out=meta(4, 5))
    assert [kernel.problem for kernel in added] == [Product(1, 4, 5, 6)] * 3


def test_a_matrix_product_takes_its_flops_near_the_peak():
    x = meta(4096, 4096, dtype=torch.float16)
    kernel, = kernels("mm", x, x, out=x)
    assert kernel.flops == 2 * 4096**3
    assert 0.65 < 2 * 4096**3 / (312e12 * kernel.duration_ns(CARD) * 1e-9) < 0.95


def test_a_thin_product_is_bound_by_memory():
    kernel, = kernels("mm", meta(1, 4096), meta(4096, 4096), out=meta(1, 4096))
    assert 1 < kernel.duration_ns(CARD) / (kernel.bytes / 1555e9 * 1e9) < 3


def test_products_that_are_none_of_their_own_kind_have_the_flops_of_their_definition():
    distance, = kernels("_cdist_forward", meta(2, 40, 8), meta(2, 30, 8), 2.0, None, out=meta(2, 40, 30))
    assert distance.flops == 3 * 2 * 40 * 30 * 8  # a difference, a square and a sum
    # As torch.nn.functional.bilinear calls it: batch 7, inputs of 4 and 6, 3 outputs.
    bilinear, = kernels("_trilinear", meta(7, 4), meta(3, 4, 6), meta(7, 6), [1, 3], [0], [1, 2], [2, 3], out=meta(7, 3))
    assert bilinear.flops == 3 * 7 * 3 * 4 * 6


def test_a_convolution_and_its_backward_have_the_flops_of_their_definition():
    # Two groups of 3 channels in and 5 out, windows of 3 × 2, 4 × 6 positions of the result.
    x, weight, y = meta(7, 6, 6, 7), meta(10, 3, 3, 2), meta(7, 10, 4, 6)
    settings = ([1, 1], [0, 0], [1, 1], False, [0, 0], 2)
    flops = 2 * 7 * 10 * 4 * 6 * 3 * 3 * 2
    forward, = kernels("convolution", x, weight, None, *settings, out=y)
    backward = kernels("convolution_backward", y, x, weight, [10], *settings, [True, True, True],
                       out=(x, weight, meta(10)))
    assert [kernel.flops for kernel in (forward, *backward)] == [flops, flops, flops, 0]
    assert [kernel.problem.of.direction for kernel in (forward, *backward[:2])] == [
        convolutions.FORWARD, convolutions.INPUT_GRADIENT, convolutions.WEIGHT_GRADIENT]
