"""torch.compile on the virtual GPU: PyTorch's own graphs, breaks and recompilations; values as uncompiled."""

import dataclasses
import functools
import logging
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

from gapless import vgpu

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def elapsed_ns(function):
    vgpu.timeline().reset()
    function()
    torch.vgpu.synchronize()
    return vgpu.timeline().host_ns


def kernels(function):
    before = vgpu.timeline().kernel_count
    function()
    return vgpu.timeline().kernel_count - before


def graphs():
    return counters["stats"]["unique_graphs"]


def breaks():
    return sum(counters["graph_break"].values())


# -- values and gradients -----------------------------------------------------------------------------


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        share = torch.sigmoid(ctx.saved_tensors[0])
        return grad * (share + ctx.saved_tensors[0] * share * (1 - share))


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    scale: float = 2.0


def autocast(x):
    with torch.autocast("vgpu", dtype=torch.float16):
        return F.linear(x, x).sum()


def partly_without_grad(x):
    with torch.no_grad():
        mask = (x > 0).to(x.dtype)
    return x * mask


def constants(x):
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device) + torch.as_tensor(0.5, device=x.device)


def host_and_device(x):
    return (x * torch.arange(4.0).to(x.device)).cpu() + 1


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda y: F.dropout(y.exp(), 0.5).sin(), x, use_reentrant=False)


FUNCTIONS = {
    "pointwise": lambda x: torch.tanh(x * 2 + 1) / 3,
    "constants": constants,
    "made on the device": lambda x: torch.where(torch.ones(4, device=x.device).cumsum(0) > 2, x, torch.arange(4, device="vgpu:0")),
    "host and device": host_and_device,
    "a view in": lambda x: x.t()[1:] * 2,
    "aliases out": lambda x: (x * 1, x.view(-1), None, {"twice": x * 2}),
    "no dimension": lambda x: x.sum() * x.mean(),
    "no element": lambda x: x[:0].sum(0) + 1,
    "random": lambda x: F.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(4, device=x.device),
    "autocast": autocast,
    "no_grad inside": partly_without_grad,
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)),
    "vmap": lambda x: torch.func.vmap(lambda row: row * row.sum())(x),
    "grad": lambda x: torch.func.grad(lambda x: (x * x).sum())(x),
    "autograd.Function": lambda x: Swish.apply(x) * 2,
    "checkpoint": checkpointed,
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "complex": lambda x: torch.view_as_real(torch.fft.rfft(x)),
    "in place": lambda x: (x * 1).add_(1).mul_(x),
    "a dataclass": lambda x: Batch(x, 3.0).x * Batch(x).scale,
}


def leaves(*found):
    return [each.detach().cpu().clone() for each in torch.utils._pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]


def outcome(function, make, calls=2):
    """What calls give and leave behind: results, arguments, gradients, parameters and buffers."""
    found = []
    for _ in range(calls):
        args = make()
        out = function(*args)
        needing = [each for each in torch.utils._pytree.tree_leaves(out) if isinstance(each, torch.Tensor) and each.requires_grad]
        if needing:
            sum(each.float().sum() for each in needing).backward()
        of_module = [*function.parameters(), *function.buffers()] if isinstance(function, nn.Module) else []
        found.append(leaves(out, args, [each.grad for each in (*args, *of_module) if each.is_leaf], of_module))
    return found


def alike(one, other):
    assert len(one) == len(other)
    for ours, theirs in zip(one, other):
        assert [each.dtype for each in ours] == [each.dtype for each in theirs]
        assert [each.stride() for each in ours] == [each.stride() for each in theirs]
        assert all(torch.equal(*pair) for pair in zip(ours, theirs))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "grad"])
def test_functions_give_what_they_give_uncompiled(name, requires_grad, device):
    function = FUNCTIONS[name]
    compiled = torch.compile(function, fullgraph=True)

    def make():
        return (torch.randn(4, 4).to(device).requires_grad_(requires_grad),)

    torch.manual_seed(0)
    wanted = outcome(function, make)
    torch.manual_seed(0)
    alike(outcome(compiled, make), wanted)
    assert graphs() == 1 and breaks() == 0


MODULES = {
    "convolution": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.3)),
    "perceptron": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)),
    "transformer": lambda: nn.Sequential(nn.Flatten(0, 1), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)),
    "RMSNorm": lambda: nn.RMSNorm(8),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_give_what_they_give_uncompiled(name, device):
    found = []
    for compile in (lambda module: module, torch.compile):
        torch.manual_seed(0)
        found.append(outcome(compile(MODULES[name]().to(device)), lambda: (torch.randn(2, 3, 8, 8).to(device),)))
    alike(*found)
    assert breaks() == 0


SGD = functools.partial(torch.optim.SGD, momentum=0.9)


def train(device, how, optimizer=SGD):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 2)).to(device)
    optimizer = optimizer(model.parameters(), lr=0.1)
    x, y = torch.randn(4, 8).to(device), torch.tensor([0, 1, 1, 0]).to(device)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    if how == "module":
        model.compile()
    elif how == "optimizer":
        optimizer.step = torch.compile(optimizer.step)
    elif how == "step":
        step = torch.compile(step)
    for _ in range(3):
        step()
    return [leaves(*model.parameters(), *model.buffers())]


@pytest.mark.parametrize("how", ["module", "optimizer", "step"])
def test_training(how, device):
    alike(train(device, how), train(device, None))


def test_a_compiled_optimizer_computes_what_its_graph_says(device):
    """Which is not what it computes uncompiled: its step counts are in tensors (torch/optim/adam.py)."""
    compiled = train(device, "optimizer", torch.optim.AdamW)
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
        alike(compiled, train(device, "optimizer", torch.optim.AdamW))


def language_model(kind):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "bert":
        return transformers.BertForMaskedLM(transformers.BertConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32))
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2))


@pytest.mark.parametrize("kind, mode, values", [("bert", torch.no_grad, vgpu.exact), ("gpt2", torch.inference_mode, vgpu.exact),
                                                ("gpt2", torch.enable_grad, vgpu.shape_only)])
def test_language_models(kind, mode, values, device):
    with values(), mode():
        model = language_model(kind).eval().to(device)
        tokens = torch.arange(16).view(2, 8).to(device)
        compiled = torch.compile(model)
        logits = compiled(tokens).logits
        assert logits.device == device and logits.shape == (2, 8, 50)
        assert torch.equal(logits.cpu(), model(tokens).logits.cpu())


# -- what Dynamo says ---------------------------------------------------------------------------------


def three_breaks(x):
    y = x * 2
    print("looked at", end="")
    scale = y.sum().item()
    if y.mean() > 0:
        return y * scale
    return y - scale


def test_breaks_are_those_of_any_device(device):
    found = []
    for x in (torch.ones(4), torch.ones(4, device=device)):
        torch._dynamo.reset()
        counters.clear()
        result = torch.compile(three_breaks, backend="eager" if x.is_cpu else "inductor")(x)
        assert torch.equal(result.cpu(), three_breaks(x).cpu())
        causes = [cause.partition("\n")[0] for cause in counters["graph_break"]]
        explained = torch._dynamo.explain(three_breaks)(x)
        found.append((causes, graphs(), explained.graph_count, explained.graph_break_count, explained.op_count))
    assert found[0] == found[1]
    assert found[0][2:4] == (4, 3)


def test_a_break_names_its_cause_where_there_may_be_none(device):
    with pytest.raises(torch._dynamo.exc.Unsupported, match="print"):
        torch.compile(three_breaks, fullgraph=True)(torch.ones(4, device=device))


def test_breaks_are_logged(device, caplog):
    torch._logging.set_logs(graph_breaks=True)
    try:
        with caplog.at_level(logging.DEBUG, "torch._dynamo"):
            torch.compile(three_breaks)(torch.ones(4, device=device))
    finally:
        torch._logging.set_logs()
    assert sum("Graph break" in record.getMessage() for record in caplog.records) >= 3


def double(x):
    return x.view(-1) * 2


@pytest.mark.parametrize("dynamic, wanted", [(None, 2), (True, 1), (False, 5)])
def test_recompilations_over_lengths(dynamic, wanted, device):
    compiled = torch.compile(double, dynamic=dynamic)
    for length in range(5, 10):
        x = torch.arange(float(length), device=device)
        assert torch.equal(compiled(x).cpu(), double(x).cpu())
    assert graphs() == wanted


def test_a_marked_dimension_is_compiled_once(device):
    compiled = torch.compile(double, fullgraph=True)
    for length in range(5, 10):
        x = torch.ones(length, 2, device=device)
        torch._dynamo.mark_dynamic(x, 0)
        compiled(x)
    assert graphs() == 1


def test_recompiling_may_be_an_error(device):
    compiled = torch.compile(double, dynamic=False)
    compiled(torch.ones(3, device=device))
    with torch._dynamo.config.patch(error_on_recompile=True), pytest.raises(torch._dynamo.exc.RecompileError):
        compiled(torch.ones(4, device=device))
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError):
        compiled(torch.ones(4, device=device))


def test_past_the_limit_functions_run_as_written(device):
    compiled = torch.compile(double, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        for length in range(3, 8):
            assert compiled(torch.ones(length, device=device)).tolist() == [2.0] * length
    assert graphs() == 2


def test_what_is_switched_off_is_not_compiled(device):
    x = torch.ones(3, device=device)
    apart = torch.compiler.disable(double)
    assert torch.compile(lambda x: apart(x))(x).tolist() == [2, 2, 2]
    with torch.compiler.set_stance("force_eager"):
        torch.compile(double)(x)
    assert graphs() == 0


def test_a_backend_of_the_programs_own(device):
    """What it is given says of its tensors what it would of CUDA's."""
    seen = []

    def backend(graph_module, inputs):
        seen.append((graph_module, inputs))
        return graph_module.forward

    x = torch.ones(3, device=device, requires_grad=True)
    torch.compile(double, backend=backend)(x)
    (graph_module, inputs), = seen
    assert [each.device for each in inputs] == [device]
    assert "VirtualTensor" not in graph_module.print_readable(print_output=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backends_that_fuse_nothing(backend, device):
    """As on any device: the operators of Dynamo's graph, or of AOTAutograd's."""
    found = []
    for compile in (lambda module: module, functools.partial(torch.compile, backend=backend)):
        torch.manual_seed(0)
        module = compile(MODULES["perceptron"]().to(device))
        found.append(outcome(module, lambda: (torch.randn(2, 3, 8, 8).to(device),)))
    alike(*found)
    assert kernels(lambda: torch.compile(lambda x: (x * 2).sin(), backend=backend)(torch.ones(3, device=device))) == 3


@pytest.mark.parametrize("way", [{"mode": "reduce-overhead"}, {"mode": "max-autotune"}, {"mode": "max-autotune-no-cudagraphs"},
                                 {"options": {"epilogue_fusion": True}}], ids=str)
def test_modes(way, device):
    x = torch.arange(4.0, device=device)
    compiled = torch.compile(double, **way)
    for _ in range(3):
        assert compiled(x).tolist() == [0, 2, 4, 6]


def test_what_stays_on_the_cpu_is_inductors(device, monkeypatch):
    from torch._inductor import compile_fx

    asked = []
    monkeypatch.setattr(compile_fx, "compile_fx", lambda module, *args, **options: asked.append(module) or module.forward)
    assert torch.compile(lambda x: x * 2)(torch.ones(2)).tolist() == [2, 2]
    torch.compile(lambda x: x * 2)(torch.ones(2, device=device))
    assert len(asked) == 1


def test_inductors_configuration_is_there_on_request(device):
    assert torch.compile(double).get_compiler_config()["max_autotune"] in (True, False)


# -- time ---------------------------------------------------------------------------------------------


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))


def test_the_first_call_compiles_and_later_ones_are_faster(device):
    x = torch.ones(1024, 1024, device=device)
    compiled = torch.compile(gelu)
    first, second, plain = elapsed_ns(lambda: compiled(x)), elapsed_ns(lambda: compiled(x)), elapsed_ns(lambda: gelu(x))
    assert first > 100_000_000 and 3 * second < plain
    assert kernels(lambda: compiled(x)) == 1 and kernels(lambda: gelu(x)) == 8
    assert elapsed_ns(lambda: compiled(x)) == second


def test_recompiling_takes_time_and_a_dynamic_graph_takes_none(device):
    compiled = torch.compile(gelu)
    times = [elapsed_ns(lambda: compiled(torch.ones(length, device=device))) for length in (64, 65, 66, 67)]
    assert min(times[:2]) > 100_000_000 > 1_000_000 > max(times[2:])


def test_compiling_counts_none_of_its_python(device):
    """Whatever Dynamo does, the clock says the same: it is counted while something is measured."""
    from gapless.vgpu.host.host_clock import counting

    def compiles():
        torch._dynamo.reset()
        x = torch.ones(64, device=device)
        with counting():
            return [elapsed_ns(lambda: torch.compile(gelu)(x)) for _ in range(2)]

    once, again = compiles(), compiles()
    assert once[0] == again[0] and once[1] == again[1] < 1_000_000


# -- where it is called -------------------------------------------------------------------------------


def test_in_a_hook_of_a_backward_pass(device):
    compiled = torch.compile(double)
    x = torch.ones(3, device=device, requires_grad=True)
    x.register_hook(compiled)
    x.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_one_compiled_function_in_another(device):
    inner = torch.compile(double)
    outer = torch.compile(lambda x: inner(x) + 1, fullgraph=True)
    assert outer(torch.ones(3, device=device)).tolist() == [3, 3, 3]
    assert graphs() == 1


def test_in_threads(device):
    compiled, found = torch.compile(double), []

    def work(number):
        found.append(compiled(torch.full((number,), 1.0, device=device)).sum().item() == 2 * number)

    threads = [threading.Thread(target=work, args=(number,)) for number in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 3


def test_an_error_of_the_functions_comes_out(device):
    compiled = torch.compile(lambda x: x @ x)
    with pytest.raises(RuntimeError):
        compiled(torch.ones(2, 3, device=device))
    assert compiled(torch.ones(2, 2, device=device)).tolist() == [[2, 2], [2, 2]]


def test_what_dynamo_takes_on_no_device_runs_as_written(device):
    sparse = torch.eye(3).to_sparse().to(device)

    def dense(x):
        return (x * 2).to_dense()

    assert torch.compile(dense)(sparse).cpu().trace() == 6
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="sparse"):
        torch.compile(dense, fullgraph=True)(sparse)


class Tagged(torch.Tensor):
    """A program's own class of tensors."""


def test_a_programs_class_of_tensors(device):
    x = torch.ones(3, device=device).as_subclass(Tagged)
    found = torch.compile(double)(x)
    assert isinstance(found, Tagged) and torch.equal(found.cpu(), double(x).cpu())


def test_export(device):
    """It traces with Dynamo where it is strict."""
    layer, x = nn.Linear(2, 2).to(device), torch.ones(3, 2, device=device)
    exported = torch.export.export(layer, (x,), strict=True).module()
    assert torch.equal(exported(x).cpu(), layer(x).cpu())
