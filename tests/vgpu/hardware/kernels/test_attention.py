"""FLOPs and bytes of fused attention by hand."""

import torch

from gapless.vgpu import find_card
from gapless.vgpu.hardware.kernels.attention import kernels


def part(dtype=torch.float16):
    return torch.empty(2, 4, 128, 64, dtype=dtype, device="meta")


def test_two_products_forward_and_five_backward():
    (forward,), (_, backward) = kernels(part(), part(), part(), None, causal=False)
    product = 2 * 2 * 4 * 128 * 128 * 64
    assert forward.flops == 2 * product and backward.flops == 5 * product
    assert forward.bytes == 4 * part().numel() * 2 + 2 * 4 * 128 * 4
    (half,), _ = kernels(part(), part(), part(), None, causal=True)
    assert half.flops == product


def test_float32_is_three_products_in_tf32_where_the_card_has_it():
    big = torch.empty(64, 16, 1024, 64, device="meta")
    (forward,), _ = kernels(big, big, big, None, causal=False)
    card = find_card("a100")
    _, seconds = forward.problem.start_and_busy_s(card, "float32")
    assert card.peak_flops["float32"] < forward.flops / seconds < card.peak_flops["tf32"] / 3
