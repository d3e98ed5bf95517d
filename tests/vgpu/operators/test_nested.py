"""nn.TransformerEncoder's fast path, and jagged tensors: the CPU's values, CUDA's waits."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gapless import profiler

MASK = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def encoder(device, layers=2, **options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, **options)
    return nn.TransformerEncoder(layer, layers).to(device).eval(), torch.randn(3, 5, 8).to(device)


@pytest.mark.parametrize("options", [{}, {"activation": "gelu"}], ids=["relu", "gelu"])
@pytest.mark.parametrize("mask", [MASK, None, MASK.flip(1)], ids=["padded", "whole", "padded on the left"])
def test_an_encoder_has_the_cpus_values(options, mask, device):
    def run(device):
        network, x = encoder(device, **options)
        with torch.no_grad():
            return network(x, src_key_padding_mask=None if mask is None else mask.to(device)).cpu()

    torch.testing.assert_close(run(device), run("cpu"))


def test_an_encoder_waits_for_the_lengths(device, waits):
    network, x = encoder(device)
    mask = MASK.to(device)
    with torch.no_grad(), waits() as found:
        network(x, src_key_padding_mask=mask)
    assert [wait.op for wait in found] == ["aten::_nested_tensor_from_mask_left_aligned", "aten::_nested_tensor_from_mask",
                                           *["aten::copy_"] * 4]
    with torch.no_grad(), waits() as found:
        network(x)
    assert not found


def test_a_layer_has_its_products(device):
    network, x = encoder(device, layers=1)
    with torch.no_grad(), profiler.profile() as found:
        network(x)
    names = [event["name"] for event in found.trace.events if event.get("cat") == "kernel"]
    assert sum("gemm" in name for name in names) == 4
    assert sum("fmha" in name for name in names) == 1
    assert sum("layer_norm" in name for name in names) == 2


def test_attention_for_inference_does_not_wait(device, waits):
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True).to(device).eval(), torch.randn(3, 5, 8).to(device)
    with torch.no_grad(), waits() as found:
        _, weights = attention(x, x, x)
    assert not found and weights.shape == (3, 5, 5)


JAGGED = {
    "elementwise": lambda n, layer: (n * 2 + 1).relu(), "linear": lambda n, layer: layer(n),
    "padded": lambda n, layer: n.to_padded_tensor(0.0), "norm": lambda n, layer: F.layer_norm(n, (16,)),
    "sum": lambda n, layer: n.sum(),
}


@pytest.mark.parametrize("name", JAGGED)
def test_jagged_tensors_have_the_cpus_values_and_gradients(name, device):
    def run(device):
        torch.manual_seed(0)
        layer = nn.Linear(16, 4).to(device)
        parts = [torch.randn(2, 16).to(device).requires_grad_(), torch.randn(4, 16).to(device).requires_grad_()]
        out = JAGGED[name](torch.nested.as_nested_tensor(parts, layout=torch.jagged), layer)
        out = out.values() if out.is_nested else out
        out.square().sum().backward()
        return [each.cpu() for each in (out.detach(), *(part.grad for part in parts))]

    torch.testing.assert_close(run(device), run("cpu"))


def test_jagged_sequences_are_attended_to_one_by_one(device):
    torch.manual_seed(0)
    parts = [torch.randn(2, 16).to(device), torch.randn(4, 16).to(device)]
    nested = torch.nested.as_nested_tensor(parts, layout=torch.jagged).requires_grad_()
    heads = nested.unflatten(-1, (2, 8)).transpose(1, 2)
    out = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(-2)
    (out + nested).sum().backward()
    for found, part in zip(out.unbind(), parts):
        each = part.view(-1, 2, 8).transpose(0, 1)
        expected = F.scaled_dot_product_attention(each, each, each).transpose(0, 1).flatten(-2)
        torch.testing.assert_close(found.cpu(), expected.cpu())
    assert nested.grad.is_nested
