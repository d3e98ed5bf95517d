"""The waits of the virtual GPU: every idiom of the table, with and without values."""

import pytest
import torch

from gapless import vgpu
from gapless.fidelity.idioms import IDIOMS, Bag


@pytest.mark.parametrize("name", IDIOMS)
def test_waits(name, device, waits):
    idiom, bag = IDIOMS[name], Bag(device)
    with waits() as found:
        idiom.use(bag)
    assert idiom.agrees(len(found)), [(w.name, w.op) for w in found]


@pytest.mark.parametrize("name", ["nonzero", "x[mask]", "unique", "unique of rows", "bincount", "masked_select", "item",
                                   "equal", "allclose", "repeat_interleave", "x[mask] = device number", "cpu",
                                   "tensor of a number", "x[cpu index]", "x[cpu mask]", "x[mask] = 1.0",
                                  "masked_fill with a device number", "normal with deviations on the device",
                                  "equal to itself", "where with a tensor on the host", "a cpu number as operand"])
def test_waits_are_the_same_without_values(name, waits):
    with vgpu.shape_only():
        bag = Bag(vgpu.enable())
        with waits() as found:
            IDIOMS[name].use(bag)
    assert len(found) == IDIOMS[name].waits


def test_a_wait_names_its_operator_and_lasts_as_long_as_the_stream_is_busy(device, waits):
    with vgpu.shape_only():
        x = torch.empty(10_000, 10_000, device=device)
        busy = x @ x
        ready = vgpu.timeline().device_ready_ns
        with waits() as found:
            busy.nonzero()
    wait, = found
    assert wait.op == "aten::nonzero"
    assert wait.wait_ns > ready - vgpu.timeline().host_ns
    assert wait.wait_ns > 10e6


def test_a_mask_waits_again_in_the_backward_pass(device, waits):
    """What is kept for backward is the mask, not the positions: they are counted a second time."""
    x = torch.arange(6.0, device=device, requires_grad=True)
    y = x[x > 2].sum()
    with waits() as found:
        y.backward()
    assert [w.op for w in found] == ["aten::nonzero"]
    assert "test_syncs.py" in found[0].location
    assert x.grad.tolist() == [0, 0, 0, 1, 1, 1]


def test_positions_of_a_cpu_mask_are_copied_over_right(device):
    x = torch.arange(6.0).view(2, 3).to(device)
    assert x[torch.tensor([[True, False, False], [False, False, True]])].tolist() == [0.0, 5.0]
    x[torch.tensor([False, True])] = x[0, 1].clone()
    assert x.tolist() == [[0, 1, 2], [1, 1, 1]]


def test_many_values_are_found_as_on_the_cpu(device):
    elements, tested = torch.arange(0, 40, 3), torch.arange(0, 1000, 2)
    assert torch.isin(elements.to(device), tested.to(device)).tolist() == torch.isin(elements, tested).tolist()
