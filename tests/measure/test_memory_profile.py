import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gapless import memory_profile, vgpu
from gapless.evidence.traces.memory import memory_by_category
from gapless.measure.device import device as choose_device

WIDE, BATCH, LAYERS = 64, 256, 3
WEIGHTS, VALUES = WIDE * WIDE * 4, WIDE * BATCH * 4


@pytest.fixture(autouse=True)
def device():
    return choose_device("vgpu:a10g")


def network(device):
    return nn.Sequential(*(part for _ in range(LAYERS) for part in (nn.Linear(WIDE, WIDE, bias=False), nn.ReLU()))).to(device)


def make_step(device, make_optimizer=torch.optim.Adam, run=None):
    net = network(device)
    optimizer = make_optimizer(net.parameters())

    def step():
        x = torch.ones(BATCH, WIDE).to(device)
        optimizer.zero_grad()
        (run(net, x) if run else net(x)).sum().backward()
        optimizer.step()

    return step


@pytest.mark.parametrize("mode", ["exact", "shape only"])
def test_a_training_step_by_category(device, mode):
    with vgpu.shape_only() if mode == "shape only" else torch.enable_grad():
        view = memory_by_category(memory_profile(make_step(device), device=device))
    assert view["parameters"].most_bytes == LAYERS * WEIGHTS
    assert view["gradients"].most_bytes == LAYERS * WEIGHTS
    assert view["optimizer state"].most_bytes == 2 * LAYERS * WEIGHTS  # Adam's steps are numbers on the host
    assert view["inputs"].most_bytes == VALUES
    assert LAYERS * VALUES <= view["activations"].most_bytes <= LAYERS * VALUES + 2048  # with numbers of 512 bytes
    assert view.simulated and view.device_name == "NVIDIA A10G"


def test_the_sum_is_what_the_allocator_counts(device):
    step = make_step(device)
    step(), step()
    before = torch.vgpu.memory_allocated()
    torch.vgpu.reset_peak_memory_stats()
    view = memory_by_category(memory_profile(step, warmup=1, device=device))
    assert view.peak_bytes == torch.vgpu.max_memory_allocated()
    assert sum(view.points[0][1]) == before


def test_checkpointing_shows_as_fewer_activations(device):
    whole = memory_by_category(memory_profile(make_step(device), device=device))
    parts = memory_by_category(memory_profile(
        make_step(device, run=lambda net, x: checkpoint(net, x, use_reentrant=False)), device=device))
    assert parts["activations"].most_bytes == whole["activations"].most_bytes - LAYERS * VALUES
    assert parts["temporary"].most_bytes > whole["temporary"].most_bytes  # what it computes anew


def test_gradients_that_go_as_they_are_used(device):
    def make(parameters):
        for parameter in (parameters := list(parameters)):
            own = torch.optim.SGD([parameter], lr=0.1)

            def used(each, own=own):
                own.step()
                own.zero_grad()

            parameter.register_post_accumulate_grad_hook(used)
        return torch.optim.SGD([torch.zeros(1, device=device)])

    view = memory_by_category(memory_profile(make_step(device, make), device=device))
    assert 0 < view["gradients"].most_bytes < LAYERS * WEIGHTS


def test_leaves_without_a_module_are_parameters_too(device):
    weight = torch.ones(WIDE, WIDE, device=device, requires_grad=True)
    view = memory_by_category(memory_profile(lambda: (weight @ weight).sum().backward(), device=device))
    assert view["parameters"].most_bytes == view["gradients"].at_peak_bytes == WEIGHTS


def test_inference_has_neither_gradients_nor_activations(device):
    net, x = network(device), torch.ones(BATCH, WIDE, device=device)

    def step():
        with torch.no_grad():
            net(x)

    view = memory_by_category(memory_profile(step, device=device))
    assert [row.category for row in view.rows] == ["parameters", "from before", "temporary"]
    assert view["from before"].most_bytes >= VALUES and view["temporary"].most_bytes == 2 * VALUES


def test_watching_leaves_nothing_behind_and_the_same_program_leaves_the_same_trace(device):
    step, hooks = make_step(device), len(nn.modules.module._global_forward_pre_hooks)
    run_backward = torch.autograd._engine_run_backward
    found = []
    for _ in range(2):
        memory_profile(step, device=device)
        vgpu.timeline().reset()
        found.append(memory_profile(step, device=device).to_bytes())
    assert found[0] == found[1]
    assert len(nn.modules.module._global_forward_pre_hooks) == hooks
    assert torch.autograd._engine_run_backward is torch.autograd.graph._engine_run_backward is run_backward


def test_too_few_steps_are_refused(device):
    with pytest.raises(ValueError, match="at least 1"):
        memory_profile(lambda: None, warmup=0, device=device)
