"""The workloads that predictions are compared by."""

import pytest
import torch

from gapless import vgpu
from gapless.fidelity.workloads import DTYPES, WORKLOADS
from gapless.vgpu.hardware.kernels import costs


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_small_step_learns_and_has_the_cpus_values(name):
    losses = {}
    for device in (torch.device("cpu"), vgpu.enable("a10g")):
        step = WORKLOADS[name].step(device, torch.float32, small=True)
        losses[device.type] = [step().item() for _ in range(3)]
    assert losses["vgpu"] == pytest.approx(losses["cpu"], rel=1e-4)
    assert losses["cpu"][2] < losses["cpu"][0]


# Parameters of the published networks: torchvision's resnet50 and vit_b_16, GPT-2 small with its words padded to 50,304.
@pytest.mark.parametrize("name, parameters", [("resnet50", 25_557_032), ("vit", 86_567_656), ("gpt", 124_475_904)])
def test_networks_have_the_published_size(name, parameters):
    with torch.device("meta"):
        network = WORKLOADS[name].network(False)
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters


@pytest.mark.parametrize("name, floor", [("resnet50", 64 * 3 * 2 * 4.0e9), ("vit", 32 * 3 * 2 * 17.0e9)])
def test_a_steps_arithmetic_is_that_of_the_published_networks(name, floor, monkeypatch):
    """Forward 4.1 and 17.6 billion multiply-adds an image (torchvision's tables); a step is three times a forward pass."""
    seen = []
    time = costs.Kernel.duration_and_share
    monkeypatch.setattr(costs.Kernel, "duration_and_share", lambda kernel, card: seen.append(kernel.flops) or time(kernel, card))
    with vgpu.shape_only():
        step = WORKLOADS[name].step(vgpu.enable("a100"), torch.bfloat16)
        seen.clear()
        step()
    assert floor <= sum(seen) <= 1.5 * floor


def test_dtypes():
    assert list(DTYPES) == ["fp32", "bf16"]
