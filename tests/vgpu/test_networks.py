"""Attention, transformers, losses, torch.compile and the profiler around a network on the device."""

import contextlib
import copy
import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile, schedule

from gapless import vgpu


def compare(module, inputs, device, call=lambda module, *inputs: module(*inputs)):
    """Outputs and gradients on the device against the CPU's."""
    found = []
    for where in (device, "cpu"):
        here = copy.deepcopy(module).to(where)
        torch.manual_seed(0)
        leaves = [t.clone().to(where).requires_grad_(t.is_floating_point()) for t in inputs]
        out = call(here, *leaves)
        out.pow(2).sum().backward()
        found.append((out.detach().cpu(), [p.grad.cpu() for p in here.parameters()],
                      [t.grad.cpu() for t in leaves if t.grad is not None]))
    torch.testing.assert_close(*found)


# -- attention --------------------------------------------------------------------------------------

Q = torch.linspace(-1, 1, 2 * 4 * 6 * 8).view(2, 4, 6, 8)
ATTENTION = {"plain": {}, "causal": {"is_causal": True}, "scaled": {"scale": 0.1}, "dropout": {"dropout_p": 0.5},
             "mask": {"attn_mask": torch.ones(6, 6, dtype=torch.bool).tril()},
             "bias": {"attn_mask": torch.linspace(-1, 1, 36).view(6, 6)}}


@pytest.mark.parametrize("case", ATTENTION)
def test_attention(case, device):
    def call(module, q, k, v):
        options = {name: value.to(q.device) if isinstance(value, torch.Tensor) else value
                   for name, value in ATTENTION[case].items()}
        return F.scaled_dot_product_attention(q, k, v, **options)

    compare(nn.Identity(), [Q, Q.flip(2), Q.flip(3)], device, call)


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION])
def test_attention_with_a_chosen_kernel(backend, device):
    with sdpa_kernel(backend):
        found = F.scaled_dot_product_attention(*[Q.to(device)] * 3)
    torch.testing.assert_close(found.cpu(), F.scaled_dot_product_attention(Q, Q, Q))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", [
    lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, norm_first=True),
    lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
], ids=["layer", "norm first", "encoder"])
def test_transformers(make, training, device):
    torch.manual_seed(0)
    compare(make().train(training), [torch.linspace(-1, 1, 80).view(2, 5, 8)], device)


def test_decoders(device):
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 80).view(2, 5, 8)
    compare(nn.Transformer(8, 2, 1, 1, 16, batch_first=True), [x, x.flip(1)], device)


@pytest.mark.parametrize("weights", [True, False])
def test_multihead_attention(weights, device):
    torch.manual_seed(0)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

    def call(module, x, padding):
        out, attention = module(x, x, x, key_padding_mask=padding, need_weights=weights)
        return out if attention is None else torch.cat([out, attention.expand(2, 5, 5)], 2)

    compare(nn.MultiheadAttention(8, 2, batch_first=True), [torch.linspace(-1, 1, 80).view(2, 5, 8), padding], device, call)


def test_the_fast_path_without_gradients(device):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.linspace(-1, 1, 80).view(2, 5, 8)
    with torch.inference_mode():
        torch.testing.assert_close(copy.deepcopy(layer).to(device)(x.to(device)).cpu(), layer(x))


def test_padding_in_eval_mode_without_nested_tensors(device):
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False).eval()
    x, padding = torch.linspace(-1, 1, 80).view(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=padding)
        found = encoder.to(device)(x.to(device), src_key_padding_mask=padding.to(device))
    torch.testing.assert_close(found.cpu()[~padding], expected[~padding])


# -- a loss that the host takes part in -----------------------------------------------------------------


def test_ctc_loss_of_one_sequence(device):
    scores, targets = torch.linspace(-1, 1, 32).view(8, 4).log_softmax(1), torch.tensor([1, 2])
    lengths = torch.tensor(8), torch.tensor(2)
    expected = nn.CTCLoss()(scores, targets, *lengths)
    assert nn.CTCLoss()(scores.to(device), targets.to(device), *lengths).item() == expected.item()


@pytest.mark.parametrize("reduction, waits_expected", [("mean", 6), ("sum", 5), ("none", 5)])
def test_ctc_loss_of_cudnn(device, waits, reduction, waits_expected):
    """Targets of 32 bits on the CPU, and all of the input: CUDA gives them to cuDNN, which waits five times."""
    targets, lengths = torch.tensor([1, 2, 1, 2, 1], dtype=torch.int32), ([8, 8], [3, 2])
    x = torch.linspace(-1, 1, 2 * 8 * 4).view(8, 2, 4)
    found = []
    for where in ("cpu", device):
        leaf = x.clone().to(where).requires_grad_()
        with waits() as waited:
            F.ctc_loss(leaf.log_softmax(2), targets, *lengths, reduction=reduction).sum().backward()
        found.append(leaf.grad.cpu())
    torch.testing.assert_close(*found)
    assert len(waited) == waits_expected


def test_ctc_loss_without_values_takes_as_long(device, waits):
    def step():
        x = torch.ones(8, 2, 4, device=device, requires_grad=True)
        with waits() as waited:
            before = vgpu.timeline().host_ns
            F.ctc_loss(x.log_softmax(2), torch.ones(2, 3, dtype=torch.long, device=device), (8, 8), (3, 2)).backward()
        return x.grad.shape, vgpu.timeline().host_ns - before, len(waited)

    exact = step()
    with vgpu.shape_only():
        assert step() == exact


@pytest.mark.parametrize("where, waits_expected", [("list", 5), ("cpu", 5), ("vgpu", 8)])
def test_ctc_loss(where, waits_expected, device, waits):
    def lengths(values):
        return values if where == "list" else torch.tensor(values, device=where)

    targets = torch.tensor([[1, 2, 1], [2, 1, 0]])
    x = torch.linspace(-1, 1, 2 * 8 * 4).view(8, 2, 4)
    found = []
    for device_of_x in (device, "cpu"):
        leaf = x.clone().to(device_of_x).requires_grad_()
        here = where == "vgpu" and device_of_x == "cpu"  # the reference has everything on the CPU
        sizes = [torch.tensor(v) if here else lengths(v) for v in ([8, 7], [3, 2])]
        scores, labels = leaf.log_softmax(2), targets.to(device_of_x)
        with waits() as waited:
            loss = F.ctc_loss(scores, labels, *sizes)
        if device_of_x == device:
            assert len(waited) == waits_expected  # the lengths, if they are there; the kernel's going over; those of the mean
        loss.backward()
        found.append((loss.detach().cpu(), leaf.grad.cpu()))
    torch.testing.assert_close(*found)


# -- torch.compile ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2)),
    lambda: nn.LSTM(3, 4),
], ids=["linear", "lstm"])
def test_networks_whose_graph_is_run_as_it_is_have_the_same_values_and_times(make, device, recwarn):
    torch.manual_seed(0)
    module = make().to(device)

    def run(call):
        module.zero_grad()
        vgpu.timeline().reset()
        out = call(torch.linspace(-1, 1, 30, device=device).view(5, 2, 3))
        out = out[0] if isinstance(out, tuple) else out
        out.sum().backward()
        return out.detach().cpu(), [p.grad.cpu() for p in module.parameters()], vgpu.timeline().host_ns

    torch._dynamo.reset()
    compiled = torch.compile(module, backend="eager")
    expected = run(module)
    for _ in range(2):
        torch.testing.assert_close(run(compiled), expected)


PROGRAMS = {
    "makes tensors": lambda x: torch.zeros(3, device="vgpu") + torch.arange(3, device=x.device) + torch.ones_like(x),
    "moves tensors": lambda x: (x.cpu() * 2).to("vgpu") + torch.ones(3).to(x.device),
    "reads a number": lambda x: torch.full((3,), x.sum().item(), device=x.device),
    "random numbers": lambda x: F.dropout(torch.ones(3, device="vgpu")) + torch.rand(3, device="vgpu") + x,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_that_make_tensors(name, backend, device):
    torch._dynamo.reset()
    x, found = torch.linspace(-1, 1, 3, device=device), []
    for program in (PROGRAMS[name], torch.compile(PROGRAMS[name], backend=backend)):
        torch.manual_seed(0)
        found.append(program(x))
        assert found[-1].device == device
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_programs_of_the_cpu_still_compile_whole(backend, device):
    def program(x):
        return x + torch.zeros(2) + torch.tensor([1.0, 2.0]) + torch.arange(2) + x.new_ones(2) + torch.empty(2).fill_(1)

    torch._dynamo.reset()
    found = torch.compile(program, backend=backend, fullgraph=True)(torch.ones(2))
    torch.testing.assert_close(found, program(torch.ones(2)))


def test_export(device):
    torch.manual_seed(0)
    layer, x = nn.Linear(2, 2).to(device), torch.ones(1, 2, device=device)
    before = vgpu.timeline().kernel_count
    exported = torch.export.export(layer, (x,)).module()
    assert vgpu.timeline().kernel_count == before  # nothing runs while a program is traced
    torch.testing.assert_close(exported(x), layer(x))


def test_dynamo_leaves_the_device_alone(device):
    """After a graph break it compiles whatever Python runs: not ours."""
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    torch.compile(nn.LSTM(3, 4).to(device), backend="eager")(torch.ones(5, 2, 3, device=device))
    assert not any("gapless" in str(reason) for reasons in counters.values() for reason in reasons)


# -- the profiler -------------------------------------------------------------------------------------

PROFILES = {"default": {}, "CPU": {"activities": [ProfilerActivity.CPU]},
            "device": {"activities": [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]},
            "everything": {"record_shapes": True, "with_stack": True, "profile_memory": True, "with_flops": True,
                           "with_modules": True},
            "schedule": {"schedule": schedule(wait=1, warmup=1, active=1)}}


@pytest.mark.parametrize("name", PROFILES)
def test_a_module_moves_inside_pytorchs_profiler(name, device):
    layer = nn.Linear(3, 3)
    weight = layer.weight
    told = pytest.warns(UserWarning, match="make the optimizer after the move") if name == "everything" else contextlib.nullcontext()
    with profile(**PROFILES[name]) as profiler:
        with told:
            made_inside = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).to(device)
        made_inside(layer.to(device)(torch.ones(2, 3, device=device))).sum().backward()
    assert layer.weight is weight and weight.device == weight.grad.device == made_inside[0].weight.grad.device == device
    assert name == "schedule" or "aten::addmm" in {event.key for event in profiler.key_averages()}, "seen again afterwards"


@pytest.mark.parametrize("name", PROFILES)
def test_pytorchs_profiler_around_a_step(name, device, tmp_path, capfd):
    layer = nn.Linear(3, 3).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with profile(**PROFILES[name]) as profiler:
        for _ in range(3):
            optimizer.zero_grad()
            layer(torch.ones(2, 3, device=device)).sum().backward()
            optimizer.step()
            profiler.step()
    assert "aten::addmm" in {event.key for event in profiler.key_averages()}
    profiler.key_averages().table()
    if name != "schedule":
        profiler.export_chrome_trace(str(tmp_path / "trace.json"))
        assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert "Exception" not in capfd.readouterr().err
