from dataclasses import replace

import pytest
import torch

from gapless.vgpu import CARDS
from gapless.vgpu.hardware import costs, specs, tensor_cores
from gapless.vgpu.hardware.products import Product, seconds

CARD = CARDS["a100"]
COLD = replace(CARD, l2_bytes=1)  # nothing fits into its cache


def kernels(name, *args, out=None, **kwargs):
    return costs.kernels(name, args, kwargs, out)


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def test_a_pointwise_kernel_takes_its_bytes_over_the_bandwidth():
    x, y = meta(1000, 1000), meta(1000, 1000)
    kernel, = kernels("add", x, y, out=meta(1000, 1000))
    assert kernel.bytes == 12e6
    assert kernel.duration_ns(COLD) == round(12e6 / (1555e9 * COLD.memory_share("pointwise")) * 1e9 + 2000)


def test_no_kernel_is_shorter_than_the_floor():
    kernel, = kernels("add", meta(1), meta(1), out=meta(1))
    assert kernel.duration_ns(CARD) == specs.KERNEL_FLOOR_NS


def test_no_elements_no_kernel():
    assert kernels("add", meta(0, 3), meta(0, 3), out=meta(0, 3)) == []


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


@pytest.fixture
def precision():
    before = torch.backends.cuda.matmul.fp32_precision
    yield
    torch.backends.cuda.matmul.fp32_precision = before


def test_float32_products_are_tf32_only_where_allowed(precision):
    x = meta(4096, 4096)
    durations = {}
    for setting in ("ieee", "tf32"):
        torch.backends.cuda.matmul.fp32_precision = setting
        durations[setting], = (k.duration_ns(CARD) for k in kernels("mm", x, x, out=x))
    assert durations["ieee"] / durations["tf32"] == pytest.approx(156 / 19.5, rel=0.25)


def test_default_precision_obeys_no_switch_and_is_pytorchs(precision):
    assert {kind: switch.fp32_precision for kind, switch in costs._SWITCHES.items()} == costs._DEFAULTS
    x = meta(4096, 4096)
    before = kernels("mm", x, x, out=x)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    with costs.default_precision(), costs.default_precision():
        assert kernels("mm", x, x, out=x) == before
    assert kernels("mm", x, x, out=x) != before


def test_a_card_without_tf32_computes_in_float32(precision):
    x = meta(4096, 4096)
    in_float32, = kernels("mm", x, x, out=x)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    kernel, = kernels("mm", x, x, out=x)
    assert kernel.dtype == "tf32"
    assert kernel.duration_ns(CARDS["t4"]) == in_float32.duration_ns(CARDS["t4"])


def test_an_expanded_operand_is_read_once():
    column = meta(1000, 1).expand(1000, 1000)
    assert costs.nbytes(column) == 4000
    assert costs.nbytes(meta(3, 4).t()) == 48


def test_a_convolution_pads_channels_to_the_tile():
    few = costs._convolution_flops((1, 3, 8, 8), (10, 3, 3, 3), (1, 10, 8, 8), False)
    full = costs._convolution_flops((1, 16, 8, 8), (16, 16, 3, 3), (1, 16, 8, 8), False)
    assert few == full == 2 * 8 * 8 * 9 * 16 * 16


def test_a_list_of_tensors_is_a_launch_for_each_chunk():
    many = [meta(10) for _ in range(111)]
    assert len(costs.multi_tensor("_foreach_mul_", (many, 2.0), {}, None)) == 2
    assert len(costs.multi_tensor("_foreach_mul_", (many[:110], 2.0), {}, None)) == 1


def test_every_kind_of_kernel_has_an_efficiency():
    for share in (*specs.MEMORY_EFFICIENCY.values(), *specs.MATH_EFFICIENCY.values()):
        assert 0 < share <= 1


def test_a_fused_optimizer_reads_and_writes_its_states():
    lists = [[meta(1000)] for _ in range(4)]
    kernel, = costs.multi_tensor("_fused_adamw_", (*lists, [], [meta(1)]), {}, None)
    assert kernel.bytes == (4 + 3) * 4000 + 4


def test_a_layer_norm_reads_its_input_once_and_a_batch_norm_twice():
    x = meta(8, 16, 4, 4)
    layer, = kernels("native_layer_norm", x, [4], out=(x, meta(1), meta(1)))
    batch, = kernels("native_batch_norm", x, None, None, None, None, True, 0.1, 1e-5, out=(x, meta(1), meta(1)))
    assert (layer.bytes, batch.bytes) == (2 * 8192, 3 * 8192)


def test_products_that_are_none_of_their_own_kind_have_the_flops_of_their_definition():
    distance, = kernels("_cdist_forward", meta(2, 40, 8), meta(2, 30, 8), 2.0, None, out=meta(2, 40, 30))
    assert distance.flops == 3 * 2 * 40 * 30 * 8  # a difference, a square and a sum
    # As torch.nn.functional.bilinear calls it: batch 7, inputs of 4 and 6, 3 outputs.
    bilinear, = kernels("_trilinear", meta(7, 4), meta(3, 4, 6), meta(7, 6), [1, 3], [0], [1, 2], [2, 3], out=meta(7, 3))
    assert bilinear.flops == 3 * 7 * 3 * 4 * 6
