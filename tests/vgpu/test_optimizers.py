"""Every optimizer of torch.optim, in each of its forms, against the CPU."""

import inspect

import pytest
import torch
from torch import nn

from gapless import vgpu

OPTIMIZERS = {name: cls for name, cls in vars(torch.optim).items()
              if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer}
NOT_DENSE = {"SparseAdam"}  # takes sparse gradients only
FORMS = {"default": {}, "single": {"foreach": False}, "multi": {"foreach": True}, "fused": {"fused": True},
         "capturable": {"capturable": True}}


def forms(cls):
    return [form for form, options in FORMS.items() if set(options) <= set(inspect.signature(cls).parameters)]


def train(cls, options, device):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).to(device)
    x = torch.randn(5, 4).to(device)
    # Muon is for matrices.
    optimizer = cls([p for p in network.parameters() if p.dim() == 2 or cls.__name__ != "Muon"], lr=0.1, **options)

    def closure():
        optimizer.zero_grad()
        loss = network(x).pow(2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return [p.detach().cpu() for p in network.parameters()], optimizer


@pytest.mark.parametrize("name, form", [(name, form) for name, cls in OPTIMIZERS.items() if name not in NOT_DENSE
                                        for form in forms(cls)])
def test_parameters_equal_the_cpu(name, form, device):
    cls = OPTIMIZERS[name]
    on_cpu = FORMS[form] if form != "capturable" else {}  # for accelerators only
    torch.testing.assert_close(train(cls, FORMS[form], device)[0], train(cls, on_cpu, "cpu")[0])


def kernels(optimizer):
    timeline = vgpu.timeline()
    timeline.recording = vgpu.Recording()
    try:
        optimizer.step()
        return [r.name for r in timeline.recording.records if r.category == "kernel"]
    finally:
        timeline.recording = None


def test_the_forms_launch_what_they_are_for(device):
    counts = {}
    for form in ("single", "multi", "fused"):
        _, optimizer = train(torch.optim.Adam, FORMS[form], device)
        counts[form] = len(kernels(optimizer))
    assert counts["single"] > counts["multi"] > counts["fused"] == 1 + 1  # the steps of all parameters, then the update


@pytest.mark.parametrize("name", [name for name, cls in OPTIMIZERS.items() if "fused" in forms(cls)])
def test_fused_steps_take_shapes_without_values(name, device):
    with vgpu.shape_only():
        _, optimizer = train(OPTIMIZERS[name], FORMS["fused"], device)
        launched = kernels(optimizer)
    assert sum("_fused_" in kernel for kernel in launched) == 1


@pytest.mark.parametrize("form", ["default", "single", "multi"])
def test_no_step_waits(form, device, waits):
    _, optimizer = train(torch.optim.Adam, FORMS[form], device)
    with waits() as found:
        optimizer.step()
    assert not found


def test_a_state_comes_back(device):
    _, optimizer = train(torch.optim.Adam, {}, device)
    other = torch.optim.Adam([p.detach().clone().requires_grad_() for group in optimizer.param_groups for p in group["params"]])
    other.load_state_dict(optimizer.state_dict())
    for old, new in zip(optimizer.state.values(), other.state.values()):
        assert new["exp_avg"].device == device
        torch.testing.assert_close(new["exp_avg"], old["exp_avg"])
