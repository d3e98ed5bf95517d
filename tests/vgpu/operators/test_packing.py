"""Packed sequences: lengths on the host, values and gradients the CPU's."""

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

from gapless import vgpu


def packs(where, **options):
    x = torch.arange(24.0).reshape(2, 3, 4).sin().to(where).requires_grad_()
    return x, rnn.pack_padded_sequence(x, batch_first=True, **options)


@pytest.mark.parametrize("options, waits_expected", [
    ({"lengths": torch.tensor([3, 2])}, 0), ({"lengths": [3, 1]}, 0), ({"lengths": torch.tensor([2, 3]), "enforce_sorted": False}, 1),
])
def test_there_and_back(device, waits, options, waits_expected):
    with waits() as found:
        x, packed = packs(device, **options)
    assert len(found) == waits_expected + 1  # x itself; where the lengths are sorted, their order
    assert packed.data.device == device and packed.batch_sizes.device.type == "cpu"
    with waits() as found:
        padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True)
    assert len(found) == waits_expected and lengths.device.type == "cpu"
    padded.square().sum().backward()
    x_cpu, expected = packs("cpu", **options)
    rnn.pad_packed_sequence(expected, batch_first=True)[0].square().sum().backward()
    assert packed.data.tolist() == expected.data.tolist() and packed.batch_sizes.tolist() == expected.batch_sizes.tolist()
    assert x.grad.tolist() == x_cpu.grad.tolist()


def test_pack_sequence_through_a_recurrent_layer(device):
    results = []
    for where in ("cpu", device):
        torch.manual_seed(0)
        layer, rows = nn.GRU(4, 5).to(where), [torch.ones(3, 4).to(where), torch.zeros(1, 4).to(where)]
        out, _ = layer(rnn.pack_sequence(rows))
        out.data.sum().backward()
        results.append((out.data.tolist(), layer.weight_hh_l0.grad.tolist()))
    assert results[0] == results[1]


def test_lengths_on_the_device_are_refused(device):
    with pytest.raises(RuntimeError, match="'lengths' argument should be a 1D CPU int64 tensor, but got 1D vgpu:0 Long tensor"):
        packs(device, lengths=torch.tensor([3, 2]).to(device))


def test_without_values(device):
    with vgpu.shape_only():
        packed = rnn.pack_padded_sequence(torch.empty(3, 2, 4, device=device), torch.tensor([3, 2]))
    assert packed.data.shape == (5, 4) and packed.batch_sizes.tolist() == [2, 2, 1]
