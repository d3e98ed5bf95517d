"""torch.compile leaves what uses the device as it is written, and compiles the rest."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gapless import vgpu

WAYS = [{"backend": "eager"}, {"backend": "aot_eager"}, {"backend": "inductor"}, {"mode": "reduce-overhead"},
        {"mode": "max-autotune"}, {"dynamic": True}]
NAMES = [str(*way.values()) for way in WAYS]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def elapsed_ns(function):
    vgpu.timeline().reset()
    function()
    torch.vgpu.synchronize()
    return vgpu.timeline().host_ns


def own_tensors(x):
    """Makes tensors on the device in ways that leave no trace in the arguments."""
    rows = torch.arange(x.shape[0], device=x.device)
    mask = torch.ones(x.shape[0], dtype=torch.bool, device="vgpu").cumsum(0) > rows
    return torch.where(mask, x, torch.tensor([], device=x.device).sum()), rows.float().mean()


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_a_function_that_makes_tensors_runs_as_written(way, device):
    x = torch.arange(4.0, device=device)
    plain, compiled = own_tensors(x), torch.compile(own_tensors, **way)
    for _ in range(2):
        for theirs, ours in zip(compiled(x), plain):
            assert torch.equal(theirs.cpu(), ours.cpu())
    assert elapsed_ns(lambda: compiled(x)) == elapsed_ns(lambda: own_tensors(x))


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_a_function_without_a_tensor_as_argument(way, device):
    double = torch.compile(lambda n: torch.arange(n, device="vgpu:0") * 2, **way)
    assert double(4).tolist() == [0, 2, 4, 6]


def test_what_stays_on_the_cpu_is_compiled():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    assert torch.compile(lambda x: x * 2 + 1, backend=backend, fullgraph=True)(torch.ones(2)).tolist() == [3, 3]
    assert len(graphs) == 1


def train(device, how):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    x, y = torch.randn(4, 8).to(device), torch.tensor([0, 1, 1, 0]).to(device)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    if how == "module":
        model.compile(backend="inductor")
    elif how == "optimizer":
        optimizer.step = torch.compile(optimizer.step, backend="inductor")
    elif how == "step":
        step = torch.compile(step, backend="inductor")
    for _ in range(3):
        step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("how", ["module", "optimizer", "step"])
@pytest.mark.filterwarnings("ignore")
def test_training(how, device):
    for compiled, expected in zip(train(device, how), train(torch.device("cpu"), None)):
        torch.testing.assert_close(compiled, expected)


def language_model(kind):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "bert":
        return transformers.BertForMaskedLM(transformers.BertConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32))
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2))


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("values", [vgpu.exact, vgpu.shape_only], ids=["exact", "shape_only"])
@pytest.mark.filterwarnings("ignore")
def test_language_models(kind, mode, values, device):
    with values(), mode():
        model = language_model(kind).eval().to(device)
        tokens = torch.arange(16).view(2, 8).to(device)
        compiled = torch.compile(model)
        logits = compiled(tokens).logits
        assert logits.device == device and logits.shape == (2, 8, 50)
        assert torch.equal(logits.cpu(), model(tokens).logits.cpu())
