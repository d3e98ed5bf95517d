"""torch.autocast("vgpu") and GradScaler against the same casts made by hand on the CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gapless import vgpu
from gapless.vgpu.operators import autocast

NAMED_TENSORS = ("name", "Dimname")  # overloads for named tensors, which are going from PyTorch
CUDNN_ONLY = {"cudnn_convolution", "cudnn_convolution_transpose", "_cudnn_rnn"}  # never called on this device


def test_the_tables_are_those_of_cuda(device):
    cuda = {name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCUDA")}
    cuda = {name for name in cuda if not any(part in name for part in NAMED_TENSORS)} - CUDNN_ONLY
    assert set(autocast.rules()) == cuda


def half(x):
    return x.to(torch.bfloat16)


X = torch.linspace(-1, 1, 12).view(3, 4)
W = torch.linspace(0.5, -0.5, 20).view(5, 4)
BIAS = torch.linspace(0, 1, 5)

# Name → the call under autocast, and what it stands for on the CPU.
CASES = {
    "linear": (lambda x, w, b: F.linear(x, w, b), lambda x, w, b: F.linear(half(x), half(w), half(b))),
    "matmul": (lambda x, w, b: x @ w.t(), lambda x, w, b: half(x) @ half(w).t()),
    "addmm": (lambda x, w, b: torch.addmm(b, x, w.t()), lambda x, w, b: torch.addmm(half(b), half(x), half(w).t())),
    "bmm": (lambda x, w, b: x[None].bmm(w.t()[None]), lambda x, w, b: half(x)[None].bmm(half(w).t()[None])),
    "einsum": (lambda x, w, b: torch.einsum("ij,kj->ik", x, w), lambda x, w, b: torch.einsum("ij,kj->ik", half(x), half(w))),
    "conv1d": (lambda x, w, b: F.conv1d(x[None], w[:, :3, None]), lambda x, w, b: F.conv1d(half(x)[None], half(w)[:, :3, None])),
    "attention": (lambda x, w, b: F.scaled_dot_product_attention(x, w, w),
                  lambda x, w, b: F.scaled_dot_product_attention(half(x), half(w), half(w))),
    "softmax": (lambda x, w, b: half(x).softmax(-1), lambda x, w, b: half(x).float().softmax(-1)),
    "softmax with a dtype": (lambda x, w, b: half(x).softmax(-1, dtype=torch.float64),
                             lambda x, w, b: half(x).softmax(-1, dtype=torch.float64)),
    "sum": (lambda x, w, b: half(x).sum(), lambda x, w, b: half(x).float().sum()),
    "sum over a dimension": (lambda x, w, b: half(x).sum(1), lambda x, w, b: half(x).float().sum(1)),
    "cumsum": (lambda x, w, b: half(x).cumsum(0), lambda x, w, b: half(x).float().cumsum(0)),
    "norm": (lambda x, w, b: half(x).norm(), lambda x, w, b: half(x).float().norm()),
    "norm over a dimension": (lambda x, w, b: half(x).norm(2, 0), lambda x, w, b: half(x).float().norm(2, 0)),
    "exp": (lambda x, w, b: half(x).exp(), lambda x, w, b: half(x).float().exp()),
    "pow": (lambda x, w, b: half(x).pow(2), lambda x, w, b: half(x).float().pow(2)),
    "layer_norm": (lambda x, w, b: F.layer_norm(half(x), (4,)), lambda x, w, b: F.layer_norm(half(x).float(), (4,))),
    "mse_loss": (lambda x, w, b: F.mse_loss(half(x), x + 1), lambda x, w, b: F.mse_loss(half(x).float(), x + 1)),
    "interpolate": (lambda x, w, b: F.interpolate(half(x)[None], scale_factor=2),
                    lambda x, w, b: F.interpolate(half(x).float()[None], scale_factor=2)),
    "the widest": (lambda x, w, b: torch.addcmul(half(x), half(x), x), lambda x, w, b: torch.addcmul(half(x).float(), half(x).float(), x)),
    "none wider": (lambda x, w, b: torch.addcmul(half(x), half(x), half(x)), lambda x, w, b: torch.addcmul(half(x), half(x), half(x))),
    "in no table": (lambda x, w, b: half(x) + half(x), lambda x, w, b: half(x) + half(x)),
    "float64": (lambda x, w, b: x.double() @ w.double().t(), lambda x, w, b: x.double() @ w.double().t()),
}


@pytest.mark.parametrize("case", CASES)
def test_operators_cast_as_the_tables_say(case, device):
    call, by_hand = CASES[case]
    with torch.autocast("vgpu", dtype=torch.bfloat16):
        found = call(*(t.to(device) for t in (X, W, BIAS)))
    torch.testing.assert_close(found.cpu(), by_hand(X, W, BIAS))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_network_and_its_gradients(dtype, device):
    torch.manual_seed(0)
    first, last = nn.Linear(4, 8), nn.Linear(8, 2)
    x = torch.randn(3, 4)

    def by_hand(x):
        hidden = F.linear(x.to(dtype), first.weight.to(dtype), first.bias.to(dtype)).relu()
        return F.linear(hidden, last.weight.to(dtype), last.bias.to(dtype)).float().logsumexp(1).sum()

    by_hand(x).backward()
    expected = [p.grad.clone() for layer in (first, last) for p in layer.parameters()]
    network = nn.Sequential(first, nn.ReLU(), last).to(device)
    network.zero_grad()
    with torch.autocast("vgpu", dtype=dtype):
        loss = network(x.to(device)).logsumexp(1).sum()
    loss.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close([p.grad.cpu() for p in network.parameters()], expected)


def operators(call):
    """Names of the operators that ran."""
    timeline = vgpu.timeline()
    timeline.recording = vgpu.Recording()
    try:
        call()
        return [(record.category, record.name) for record in timeline.recording.records]
    finally:
        timeline.recording = None


def test_a_weight_is_cast_once_in_a_region(device):
    layer, x = nn.Linear(4, 4, bias=False).to(device), half(torch.ones(2, 4, device=device))

    def casts(**options):
        def run():
            with torch.autocast("vgpu", dtype=torch.bfloat16, **options):
                layer(layer(x))

        return operators(run).count(("cpu_op", "aten::_to_copy"))

    assert casts() == 1
    assert casts() == 1  # and again in the next region
    assert casts(cache_enabled=False) == 2
    assert not autocast._copies


def test_a_changed_weight_is_cast_anew(device):
    layer, x = nn.Linear(2, 2, bias=False).to(device), torch.ones(1, 2, device=device)
    values = []
    for _ in range(2):
        with torch.autocast("vgpu", dtype=torch.bfloat16):
            values.append(layer(x).sum().item())
        with torch.no_grad():
            layer.weight.add_(1)
    assert values[1] - values[0] == pytest.approx(4, abs=0.1)


@pytest.mark.parametrize("dtype, name", [(torch.bfloat16, "bfloat16"), (torch.float16, "float16")])
def test_products_run_at_the_lower_precisions_rate(dtype, name, device):
    x = torch.ones(64, 64, device=device)

    def run():
        with torch.autocast("vgpu", dtype=dtype):
            x @ x

    kernels = [kernel for category, kernel in operators(run) if category == "kernel" and "mm" in kernel]
    assert len(kernels) == 1 and name in kernels[0]


def test_switched_off_inside(device):
    x = torch.ones(2, 2, device=device)
    with torch.autocast("vgpu", dtype=torch.bfloat16):
        with torch.autocast("vgpu", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16


def test_the_cpus_tensors_are_left_alone(device):
    with torch.autocast("vgpu", dtype=torch.bfloat16):
        assert (X @ W.t()).dtype == torch.float32


def test_what_is_unsafe_is_refused(device):
    with torch.autocast("vgpu"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(torch.ones(2, device=device), torch.ones(2, device=device))


def test_functions_of_ones_own(device):
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="vgpu", cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="vgpu")
        def backward(ctx, grad):
            return grad * 2

    x = half(torch.ones(2, device=device)).requires_grad_()
    with torch.autocast("vgpu", dtype=torch.bfloat16):
        y = Double.apply(x)
    y.sum().backward()
    assert y.dtype == torch.float32
    assert x.grad.cpu().tolist() == [2, 2]


# -- GradScaler -------------------------------------------------------------------------------------


def scaled_steps(device, optimizer_options, poison=False):
    torch.manual_seed(0)
    layer = nn.Linear(3, 2).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, **optimizer_options)
    scaler = torch.amp.GradScaler(torch.device(device).type, init_scale=8.0, growth_interval=1)
    for i in range(3):
        optimizer.zero_grad()
        x = torch.ones(2, 3, device=device)
        if poison and i == 1:
            x[0, 0] = float("inf")
        scaler.scale(layer(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return [p.detach().cpu() for p in layer.parameters()], scaler.get_scale()


@pytest.mark.parametrize("poison", [False, True], ids=["finite", "infinite"])
@pytest.mark.parametrize("options", [{}, {"foreach": False}, {"fused": True}], ids=["default", "single", "fused"])
def test_the_scaler_trains_as_on_the_cpu(options, poison, device):
    torch.testing.assert_close(scaled_steps("vgpu", options, poison), scaled_steps("cpu", options, poison))


@pytest.mark.parametrize("fused, waits_expected", [(False, 1), (True, 0)])
def test_the_step_waits_only_without_a_fused_optimizer(fused, waits_expected, device, waits):
    layer = nn.Linear(3, 2).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("vgpu")
    scaler.scale(layer(torch.ones(2, 3, device=device)).sum()).backward()
    with waits() as found:
        scaler.step(optimizer)
        scaler.update()
    assert len(found) == waits_expected
