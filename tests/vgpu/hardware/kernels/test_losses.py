"""The kernels of the negative log-likelihood."""

import pytest
import torch

from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.kernels import costs
from gapless.vgpu.hardware.kernels.losses import one_block, threads

MEAN = 1


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def forward_ms(rows, classes=10, reduction=MEAN, card="a10g"):
    x, labels = meta(rows, classes), meta(rows, dtype=torch.int64)
    kernels = costs.kernels("nll_loss_forward", (x, labels, None, reduction, -100), {}, (meta(), meta()))
    return sum(kernel.duration_ns(CARDS[card]) for kernel in kernels) / 1e6


@pytest.mark.parametrize("rows, expected", [(1, 32), (512, 32), (1024, 64), (5000, 256), (16_384, 1024), (10**7, 1024)])
def test_threads_of_the_block(rows, expected):
    assert threads(rows) == expected


def test_millions_of_rows_are_the_work_of_one_sm():
    """Ten times the rows are ten times the time, and a card with more SMs is no faster."""
    assert forward_ms(10_000_000) == pytest.approx(10 * forward_ms(1_000_000), rel=0.01)
    assert forward_ms(10_000_000, card="h100") > 0.5 * forward_ms(10_000_000)
    assert forward_ms(10_000_000) > 3 * forward_ms(10_000_000, reduction=0)


def test_with_32_threads_it_was_much_slower():
    """PyTorch up to 2.7: hand-worked, 10^7 / 32 passes of two waits each."""
    card = CARDS["a10g"]
    old, new = (sum(one_block(10**7, 40, 4, 2, block).start_and_busy_s(card, "")) for block in (32, None))
    assert old == pytest.approx(10**7 / 32 * 2 * 496 / 1.71e9, rel=0.01)
    assert old > 25 * new


def test_images_are_no_work_of_one_block():
    x, labels = meta(16, 10, 256, 256), meta(16, 256, 256, dtype=torch.int64)
    kernels = costs.kernels("nll_loss2d_forward", (x, labels, None, MEAN, -100), {}, (meta(), meta()))
    assert sum(kernel.duration_ns(CARDS["a10g"]) for kernel in kernels) / 1e6 < forward_ms(16 * 256 * 256)
    read = max(kernel.bytes for kernel in kernels)
    assert labels.numel() * 8 < read < labels.numel() * 8 + x.numel() * 4


@pytest.mark.parametrize("reduction", [0, MEAN])
def test_backward_clears_first(reduction):
    x, labels, grad = meta(100, 10), meta(100, dtype=torch.int64), meta(*[100][reduction:])
    first, second = costs.kernels("nll_loss_backward", (grad, x, labels, None, reduction, -100, meta()), {}, meta(100, 10))
    assert first.kind == "memset" and "nll_loss_backward" in second.name
