"""LSTM, GRU and RNN, and their cells: the CPU's values and gradients, cuDNN's calls."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn as packing

from gapless import vgpu

KINDS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}
OPTIONS = {"plain": {}, "deep": {"num_layers": 2, "bidirectional": True, "dropout": 0.5}, "no bias": {"bias": False},
           "batch first": {"batch_first": True}, "projected": {"proj_size": 2}, "relu": {"nonlinearity": "relu"}}
FOR = {"projected": ("LSTM",), "relu": ("RNN",)}


def results(module, device, call):
    """Outputs, and gradients of all parameters by a weighted sum of them."""
    module = copy.deepcopy(module).to(device)
    torch.manual_seed(1)
    out = call(module)
    sum((t * torch.linspace(0.5, 1.5, t.numel()).view(t.shape).to(device)).sum() for t in out).backward()
    return [t.detach().cpu() for t in out], [p.grad.cpu() for p in module.parameters()]


def flat(output, hidden):
    return [output, *(hidden if isinstance(hidden, tuple) else (hidden,))]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("kind, option", [(kind, option) for option in OPTIONS for kind in FOR.get(option, KINDS)])
def test_layers_equal_the_cpu(kind, option, device):
    torch.manual_seed(0)
    module = KINDS[kind](3, 4, **OPTIONS[option])

    def padded(module):
        return flat(*module(torch.linspace(-1, 1, 30).view(2, 5, 3).to(module.weight_ih_l0.device)))

    def packed(module):
        sequences = nn.utils.rnn.pack_sequence([torch.ones(5, 3), torch.full((2, 3), 0.5)])
        output, hidden = module(sequences.to(module.weight_ih_l0.device))
        return flat(output.data, hidden)

    for call in (padded, packed):
        torch.testing.assert_close(results(module, "vgpu", call), results(module, "cpu", call))


# PyTorch's own shape function of an LSTM's cell fails without biases.
@pytest.mark.parametrize("compiled, bias", [(False, True), (False, False), (True, True)])
@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells_equal_the_cpu(kind, bias, compiled, device):
    torch.manual_seed(0)
    module = kind(3, 4, bias=bias)

    def call(module):
        if compiled and module.weight_ih.device.type == "vgpu":
            module.compile()
        x = torch.linspace(-1, 1, 6).view(2, 3).to(module.weight_ih.device)
        hidden = module(x * 2, module(x))
        return list(hidden) if isinstance(hidden, tuple) else [hidden]

    torch.testing.assert_close(results(module, "vgpu", call), results(module, "cpu", call))


def recorded(call):
    timeline = vgpu.timeline()
    timeline.recording = vgpu.Recording()
    try:
        call()
        return timeline.recording.records
    finally:
        timeline.recording = None


def names(records, category):
    return [r.name for r in records if r.category == category]


def test_the_host_makes_one_call_each_way(device):
    module, x = nn.LSTM(3, 4).to(device), torch.ones(5, 2, 3, device=device)
    records = recorded(lambda: module(x)[0].sum().backward())
    calls = [name for name in names(records, "cpu_op") if "rnn" in name]
    assert calls == ["aten::_cudnn_rnn", "aten::_cudnn_rnn_backward"]
    assert not any("addmm" in name or "lstm_cell" in name for name in names(records, "cpu_op"))
    kernels = [name for name in names(records, "kernel") if "rnn" in name]
    # One product of the inputs, two kernels a step; backward two a step, the inputs' gradients and both matrices'.
    assert len(kernels) == 1 + 2 * 5 + 2 * 5 + 3


def test_packed_steps_are_as_many_as_the_longest(device):
    module = nn.GRU(3, 4).to(device)
    x = nn.utils.rnn.pack_sequence([torch.ones(6, 3), torch.ones(2, 3)]).to(device)
    assert len([n for n in names(recorded(lambda: module(x)), "kernel") if "rnn" in n]) == 1 + 2 * 6


def test_without_cudnn_it_is_taken_apart(device):
    module, x = nn.LSTM(3, 4).to(device), torch.ones(5, 2, 3, device=device)
    with torch.backends.cudnn.flags(enabled=False):
        apart = module(x)[0]
        assert "aten::_cudnn_rnn" not in names(recorded(lambda: module(x)), "cpu_op")
    torch.testing.assert_close(apart, module(x)[0])


def test_autocast(device):
    module, x = nn.LSTM(3, 4).to(device), torch.ones(5, 2, 3, device=device)
    with torch.autocast("vgpu", dtype=torch.bfloat16):
        records = recorded(lambda: module(x)[0].sum().backward())
        assert module(x)[0].dtype == torch.bfloat16
    assert all("bfloat16" in name for name in names(records, "kernel") if name.startswith("gemm"))
    assert module.weight_hh_l0.grad.dtype == torch.float32


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode, device):
    module, x = nn.GRU(3, 4).to(device), torch.ones(5, 2, 3, device=device)
    expected = module(x)[0].detach()
    with mode():
        found = module(x)[0]
        torch.testing.assert_close(found.cpu(), expected.cpu())
        assert not found.requires_grad


def test_the_graph_is_kept_or_freed_as_asked(device):
    module, x = nn.LSTM(3, 4).to(device), torch.ones(5, 2, 3, device=device)
    loss = module(x)[0].sum()
    loss.backward(retain_graph=True)
    once = module.weight_hh_l0.grad.clone()
    loss.backward()
    torch.testing.assert_close(module.weight_hh_l0.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_what_is_kept_for_the_backward_pass_takes_memory(device):
    module, x = nn.LSTM(3, 4).to(device), torch.ones(5, 200, 3, device=device)
    before = vgpu.memory().allocated_bytes
    with torch.no_grad():
        without = module(x)
        plain = vgpu.memory().allocated_bytes - before
    del without
    out = module(x)
    # Four gates and two more values of each unit and step, as float32.
    assert vgpu.memory().allocated_bytes - before - plain >= 5 * 200 * 4 * 6 * 4
    del out
    assert vgpu.memory().allocated_bytes == before


def test_shape_only(device):
    with vgpu.shape_only():
        module = nn.LSTM(3, 4, 2).to(device)
        out, (h, _) = module(torch.ones(5, 2, 3, device=device))
        out.sum().backward()
        assert (out.shape, h.shape, module.weight_hh_l1.grad.shape) == ((5, 2, 4), (2, 2, 4), (16, 4))
        for cell in (nn.LSTMCell, nn.GRUCell):
            hidden = cell(3, 4).to(device)(torch.ones(2, 3, device=device))
            (hidden[0] if isinstance(hidden, tuple) else hidden).sum().backward()


def test_eval_mode_has_no_backward_pass(device):
    module = nn.LSTM(3, 4).to(device).eval()
    with pytest.raises(RuntimeError, match="only be called in training mode"):
        module(torch.ones(5, 2, 3, device=device))[0].sum().backward()


def test_second_derivatives_are_refused_where_cudnn_has_none(device):
    module, x = nn.GRU(2, 3).to(device), torch.ones(4, 1, 2, device=device, requires_grad=True)

    def second():
        gradient, = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.sum(), x)[0]

    with pytest.raises(RuntimeError, match="_cudnn_rnn_backward' is not implemented"):
        second()
    with torch.backends.cudnn.flags(enabled=False):
        assert second().shape == x.shape


def test_mixed_devices(device):
    with pytest.raises(RuntimeError, match="same device"):
        nn.LSTM(3, 4).to(device)(torch.ones(5, 2, 3))


# -- packed sequences ---------------------------------------------------------------------------------


def packs(where, **options):
    x = torch.arange(24.0).reshape(2, 3, 4).sin().to(where).requires_grad_()
    return x, packing.pack_padded_sequence(x, batch_first=True, **options)


@pytest.mark.parametrize("options, waits_expected", [
    ({"lengths": torch.tensor([3, 2])}, 0), ({"lengths": [3, 1]}, 0), ({"lengths": torch.tensor([2, 3]), "enforce_sorted": False}, 1),
])
def test_there_and_back(device, waits, options, waits_expected):
    with waits() as found:
        x, packed = packs(device, **options)
    assert len(found) == waits_expected + 1  # x itself; where the lengths are sorted, their order
    assert packed.data.device == device and packed.batch_sizes.device.type == "cpu"
    with waits() as found:
        padded, lengths = packing.pad_packed_sequence(packed, batch_first=True)
    assert len(found) == waits_expected and lengths.device.type == "cpu"
    padded.square().sum().backward()
    x_cpu, expected = packs("cpu", **options)
    packing.pad_packed_sequence(expected, batch_first=True)[0].square().sum().backward()
    assert packed.data.tolist() == expected.data.tolist() and packed.batch_sizes.tolist() == expected.batch_sizes.tolist()
    assert x.grad.tolist() == x_cpu.grad.tolist()


def test_pack_sequence_through_a_recurrent_layer(device):
    results = []
    for where in ("cpu", device):
        torch.manual_seed(0)
        layer, rows = nn.GRU(4, 5).to(where), [torch.ones(3, 4).to(where), torch.zeros(1, 4).to(where)]
        out, _ = layer(packing.pack_sequence(rows))
        out.data.sum().backward()
        results.append((out.data.tolist(), layer.weight_hh_l0.grad.tolist()))
    assert results[0] == results[1]


def test_lengths_on_the_device_are_refused(device):
    with pytest.raises(RuntimeError, match="'lengths' argument should be a 1D CPU int64 tensor, but got 1D vgpu:0 Long tensor"):
        packs(device, lengths=torch.tensor([3, 2]).to(device))


def test_without_values(device):
    with vgpu.shape_only():
        packed = packing.pack_padded_sequence(torch.empty(3, 2, 4, device=device), torch.tensor([3, 2]))
    assert packed.data.shape == (5, 4) and packed.batch_sizes.tolist() == [2, 2, 1]
