from dataclasses import replace

import torch

from gapless.vgpu import CARDS
from gapless.vgpu.hardware.cards import specs
from gapless.vgpu.hardware.kernels import costs

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


def test_an_expanded_operand_is_read_once():
    column = meta(1000, 1).expand(1000, 1000)
    assert costs.nbytes(column) == 4000
    assert costs.nbytes(meta(3, 4).t()) == 48


def test_every_kind_of_kernel_has_an_efficiency():
    for share in (*specs.MEMORY_EFFICIENCY.values(), *specs.MATH_EFFICIENCY.values()):
        assert 0 < share <= 1


def test_a_layer_norm_reads_its_input_once_and_a_batch_norm_twice():
    x = meta(8, 16, 4, 4)
    layer, = kernels("native_layer_norm", x, [4], out=(x, meta(1), meta(1)))
    batch, = kernels("native_batch_norm", x, None, None, None, None, True, 0.1, 1e-5, out=(x, meta(1), meta(1)))
    assert (layer.bytes, batch.bytes) == (2 * 8192, 3 * 8192)
