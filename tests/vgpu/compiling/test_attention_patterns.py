"""Attention that is written out, compiled: where it is one kernel, with the values as they were."""

import math

import pytest
import torch
from torch import nn

from gapless import vgpu
from gapless.vgpu.compiling import attention_patterns, regions
from gapless.vgpu.hardware.clock.timeline import Recording


def attention(query, key, value, mask):
    query, key, value = (each.permute(0, 2, 1, 3) for each in (query, key, value))
    weights = nn.functional.softmax(query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + mask, dim=-1)
    return (weights @ value).transpose(1, 2).contiguous()


def kernels(dtype, grad=False, function=attention):
    parts = [torch.randn(2, 32, 4, 16, dtype=dtype, device="vgpu:0", requires_grad=grad) for _ in range(3)]
    mask = torch.zeros(2, 1, 1, 32, dtype=dtype, device="vgpu:0")
    wanted = function(*parts, mask)
    timeline = vgpu.timeline()
    timeline.recording = recording = Recording(lines=False)
    try:
        with regions.running("attention") as region:
            found = region.returns(function(*parts, mask))
    finally:
        timeline.recording = None
    assert torch.equal(found.cpu(), wanted.cpu())
    return [record.name for record in recording.records if record.category == "kernel"]


def test_in_half_precision_it_is_one_kernel():
    assert kernels(torch.float16) == ["fmha_forward_kernel"]


def test_in_float32_only_with_tf32():
    assert sum("bmm" in name for name in kernels(torch.float32)) == 2
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        assert kernels(torch.float32) == ["fmha_forward_kernel"]
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    with attention_patterns.as_in_torch_2_1():
        assert kernels(torch.float32) == ["fmha_forward_kernel"]


def test_what_a_backward_pass_wants_stays():
    assert sum("bmm" in name for name in kernels(torch.float16, grad=True)) == 2


def _weights_too(query, key, value, mask):
    weights = torch.softmax(query.transpose(1, 2) @ key.permute(0, 2, 3, 1), -1)
    return (weights @ value.transpose(1, 2)).transpose(1, 2) + weights.sum()


def _no_softmax(query, key, value, mask):
    return (query.transpose(1, 2) @ key.permute(0, 2, 3, 1) * 0.1 @ value.transpose(1, 2)).transpose(1, 2)


@pytest.mark.parametrize("function", [_weights_too, _no_softmax])
def test_other_products_stay(function):
    assert sum("bmm" in name for name in kernels(torch.float16, function=function)) == 2
