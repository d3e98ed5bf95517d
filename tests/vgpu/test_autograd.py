"""What surrounds a backward pass: clipping, hooks, anomaly detection, checkpoints, torch.func, inference mode."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

from gapless import vgpu


def network(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Dropout(0.5), nn.Linear(3, 2)).to(device)


X = torch.linspace(-1, 1, 20).view(5, 4)


def gradients(module):
    return [p.grad.cpu() for p in module.parameters()]


# -- clipping ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_clipping_by_norm(foreach, norm_type, device):
    found = []
    for where in ("cpu", device):
        module = network(where)
        torch.manual_seed(1)
        module(X.to(where)).pow(2).sum().backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), 0.1, norm_type, foreach=foreach)
        found.append((norm.cpu(), gradients(module)))
    torch.testing.assert_close(*reversed(found))


@pytest.mark.parametrize("strict, waits_expected", [(True, 1), (False, 0)])
def test_only_the_strict_clipping_waits(strict, waits_expected, device, waits):
    module = network(device)
    module(X.to(device)).sum().backward()
    with waits() as found:
        nn.utils.clip_grad_norm_(module.parameters(), 1.0, error_if_nonfinite=strict)
    assert len(found) == waits_expected


def test_strict_clipping_finds_what_is_not_finite(device):
    module = network(device)
    (module(X.to(device)).sum() * float("inf")).backward()
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(module.parameters(), 1.0, error_if_nonfinite=True)


def test_clipping_by_value(device):
    module = network(device)
    (module(X.to(device)) * 100).sum().backward()
    nn.utils.clip_grad_value_(module.parameters(), 0.1)
    assert max(g.abs().max() for g in gradients(module)) == pytest.approx(0.1)


# -- hooks and anomalies ----------------------------------------------------------------------------


def test_hooks(device):
    layer, log = nn.Linear(4, 3).to(device), []
    layer.register_forward_pre_hook(lambda *_: log.append("before"))
    layer.register_forward_hook(lambda *_: log.append("forward"))
    layer.register_full_backward_hook(lambda *_: log.append("backward"))
    layer.weight.register_hook(lambda gradient: gradient * 2)
    layer.weight.register_post_accumulate_grad_hook(lambda _: log.append("accumulated"))
    x = X.to(device).requires_grad_()
    layer(x).sum().backward()
    assert log[:2] == ["before", "forward"]
    assert sorted(log[2:]) == ["accumulated", "backward"]
    torch.testing.assert_close(layer.weight.grad.cpu(), 2 * X.sum(0).expand(3, 4))


def test_saved_tensors_on_the_host(device):
    x = X.to(device).requires_grad_()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = x.exp()
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), X.exp())


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected in")
def test_anomaly_detection(device):
    x = torch.tensor([-1.0], device=device, requires_grad=True)
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="SqrtBackward0.*nan"):
        x.sqrt().sum().backward()


def test_a_tensor_changed_in_place_is_found(device):
    x = X.to(device).requires_grad_()
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# -- checkpoints ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=str)
def test_checkpoints_compute_again_with_the_same_random_numbers(reentrant, dtype, device):
    found = []
    for run in (lambda f, x: f(x), lambda f, x: checkpoint(f, x, use_reentrant=reentrant)):
        module = network(device)
        x = X.to(device).requires_grad_()
        torch.manual_seed(1)
        with torch.autocast("vgpu", dtype=dtype, enabled=dtype is not None):
            y = run(module, x)
        y.float().pow(2).sum().backward()
        found.append((y.detach().cpu(), x.grad.cpu(), gradients(module)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_save_memory_and_cost_kernels(reentrant, device):
    def measure(run):
        module = nn.Sequential(*(nn.Tanh() for _ in range(10)))
        x = torch.ones(1000, device=device, requires_grad=True)
        kernels = vgpu.timeline().kernel_count
        before = vgpu.memory().allocated_bytes
        y = run(module, x)
        held = vgpu.memory().allocated_bytes - before
        y.sum().backward()
        return held, vgpu.timeline().kernel_count - kernels

    plain = measure(lambda module, x: module(x))
    saved = measure(lambda module, x: checkpoint(module, x, use_reentrant=reentrant))
    assert saved[0] < plain[0] / 5
    assert saved[1] >= plain[1] + 10 - 1  # the last result need not be computed again


# -- torch.func -------------------------------------------------------------------------------------


def f(w, x):
    return torch.tanh(x @ w).pow(2).sum()


WAYS = {
    "grad": lambda w, x: grad(f)(w, x),
    "vmap": lambda w, x: vmap(f, (None, 0))(w, x),
    "vmap of grad": lambda w, x: vmap(grad(f), (None, 0))(w, x),
    "jacrev": lambda w, x: jacrev(f)(w, x),
    "jacfwd": lambda w, x: jacfwd(f)(w, x),
    "hessian": lambda w, x: hessian(f)(w, x),
    "vjp": lambda w, x: vjp(f, w, x)[1](torch.ones((), device=w.device))[0],
    "jvp": lambda w, x: jvp(f, (w, x), (torch.ones_like(w), torch.ones_like(x)))[1],
    "jvp of one": lambda w, x: jvp(lambda w: f(w, x), (w,), (torch.ones_like(w),))[1],
    "random": lambda w, x: vmap(lambda row: row + torch.rand_like(row), randomness="different")(x),
}


@pytest.mark.parametrize("way", WAYS)
def test_torch_func(way, device):
    w, found = torch.linspace(-1, 1, 12).view(4, 3), []
    for where in (device, "cpu"):
        torch.manual_seed(0)
        found.append(WAYS[way](w.to(where), X.to(where)))
    torch.testing.assert_close(found[0].cpu(), found[1])


def test_gradients_of_each_sample(device):
    module = network(device).eval()
    parameters = dict(module.named_parameters())

    def loss(parameters, row):
        return functional_call(module, parameters, (row,)).pow(2).sum()

    each = vmap(grad(loss), (None, 0))(parameters, X.to(device))
    loss(parameters, X.to(device)).backward()
    for name, parameter in parameters.items():
        torch.testing.assert_close(each[name].sum(0), parameter.grad)


def test_gradcheck(device):
    x = torch.linspace(0.1, 1, 4, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(torch.sin, x)
    assert torch.autograd.gradgradcheck(torch.sin, x)


# -- inference mode -----------------------------------------------------------------------------------


def operators(mode, device):
    module = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(8, 3)).to(device)
    x, labels = torch.ones(2, 1, 3, 3, device=device), torch.zeros(2, dtype=torch.long, device=device)
    timeline = vgpu.timeline()
    timeline.recording = vgpu.Recording()
    try:
        with mode():
            nn.functional.cross_entropy(module(x), labels).item()
        records = timeline.recording.records
        return [r.name for r in records if r.category in ("cpu_op", "kernel", "cuda_runtime") and r.name != "aten::detach"]
    finally:
        timeline.recording = None


def test_inference_mode_runs_the_same_operators(device):
    assert operators(torch.inference_mode, device) == operators(torch.no_grad, device)


def test_a_module_moves_in_inference_mode(device):
    with torch.inference_mode():
        assert nn.Linear(2, 2).to(device).weight.device == device


@pytest.mark.parametrize("view", [lambda x: x[0], lambda x: x.view(2, 3), lambda x: x.unbind()[1], lambda x: x.t()])
def test_a_view_is_an_inference_tensor_where_its_base_is_one(view, device):
    with torch.inference_mode():
        inside = torch.ones(3, 2, device=device)
    outside = torch.ones(3, 2, device=device)
    assert view(inside).is_inference() and not view(outside).is_inference()
    with torch.inference_mode():
        assert view(inside).is_inference() and not view(outside).is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        view(inside).add_(1)


def test_a_zero_tangent_times_infinity_is_zero():
    """PyTorch stands for "no tangent" by a tensor that it does not compute with."""
    x = torch.tensor([float("inf"), 1.0, float("nan")])
    for device in (x.device, vgpu.enable()):
        there = x.to(device)
        assert torch.func.jvp(torch.nanmean, (there,), (torch.ones_like(there),))[1].item() == 1.0
