"""Programs that say ``cuda``: what they make lies on the virtual GPU, and what they ask is answered as by CUDA."""

import io

import pytest
import torch
from torch import nn

from gapless import vgpu
from gapless.vgpu import as_cuda
from gapless.vgpu.core.storage import VirtualStorage
from gapless.vgpu.core.tensor import VirtualTensor
from gapless.vgpu.process.state import DEVICE


@pytest.fixture
def cuda():
    with as_cuda.install("a100") as device:
        yield device


def asked(code: str, **names):
    """``code`` evaluated as a line of a program that knows nothing of the virtual GPU."""
    return eval(code, {"torch": torch, "__name__": "__main__", **names})


MAKES = ["torch.zeros(2, device='cuda')", "torch.tensor([1., 2.], device='cuda:0')", "torch.ones(2).to('cuda')",
         "torch.ones(2).to(torch.device('cuda'), torch.float64)", "torch.ones(2).to(device='cuda', non_blocking=True)",
         "torch.ones(2).to(0)", "torch.ones(2).cuda()", "torch.ones(2).cuda(0)", "torch.ones(2).cuda(device='cuda:0')",
         "torch.empty_like(torch.ones(2), device='cuda')", "torch.ones(2).new_zeros(3, device='cuda')",
         "torch.full((), 3., device='cuda')", "torch.randn(2, device='cuda', requires_grad=True)",
         "torch.arange(3, device='cuda')", "torch.randperm(3, device='cuda')", "torch.eye(2, device='cuda')",
         "torch.linspace(0, 1, 3, device='cuda')", "torch.as_tensor([1], device='cuda')", "torch.fft.fftfreq(4, device='cuda')",
         "torch.randint(3, (2,), device='cuda')", "torch.cuda.FloatTensor([1., 2.])", "torch.cuda.LongTensor(2, 3)",
         "torch.ones(2).type('torch.cuda.HalfTensor')", "torch.ones(2).type(torch.cuda.DoubleTensor)",
         "torch.cuda.FloatTensor(torch.Size([2, 3]))", "torch.ones(2, device='cuda').type(torch.cuda.LongTensor)", "torch.nn.Linear(2, 2).cuda().weight",
         "torch.nn.Linear(2, 2).to('cuda').weight", "torch.nn.Linear(2, 2, device='cuda').weight"]


@pytest.mark.parametrize("code", MAKES)
def test_what_is_made_on_cuda_is_on_the_device_and_says_cuda(cuda, code):
    made = asked(code)
    assert isinstance(made, VirtualTensor)
    assert asked("(made.device, made.is_cuda, made.get_device())", made=made) == (torch.device("cuda", 0), True, 0)
    assert asked("made.type().startswith('torch.cuda.')", made=made)
    assert made.within.device.type == "cpu"


@pytest.mark.parametrize("code", [
    "torch.Generator('cuda')", "x.untyped_storage()", "x.storage()", "torch.cuda.current_stream()", "torch.cuda.Stream()",
    "torch.cuda.Event()", "torch.nn.LazyLinear(2, device='cuda').weight",
])
def test_all_that_is_on_the_device_says_cuda(cuda, code):
    found = asked(code, x=torch.ones(2, device="cuda"))
    assert asked("found.device", found=found) == torch.device("cuda", 0)
    assert asked("getattr(found, 'is_cuda', True)", found=found)


def test_what_holds_tensors_says_cuda_and_what_is_on_the_host_does_not(cuda):
    pack = nn.utils.rnn.pack_sequence
    assert asked("packed.is_cuda", packed=pack([torch.ones(3, device="cuda")]))
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cuda", layout=torch.jagged)
    assert asked("x.device.type", x=jagged * 2) == "cuda" and asked("x.is_cuda", x=jagged)
    for found in (pack([torch.ones(3)]), torch.ones(2).untyped_storage(), torch.ones(2).storage()):
        assert not asked("found.is_cuda", found=found)
    assert asked("x.storage().device", x=torch.ones(2)).type == "cpu"


def test_forward_derivatives_and_scripts(cuda):
    """Both know PyTorch's functions by identity, which are wrapped here."""
    x = torch.arange(3.0, device="cuda")
    value, tangent = torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))
    assert torch.equal(value, x.sin()) and torch.equal(tangent, x.cos())
    assert torch.equal(torch.func.hessian(lambda x: (x**3).sum())(x), torch.diag(6 * x))
    assert torch.equal(torch.jit.script(_shifted)(x), x + 1)


def _shifted(x: torch.Tensor):
    return x + torch.ones_like(x)


def test_scripts_know_nothing_of_it_afterwards():
    table = torch.jit._builtins._get_builtin_table()
    before = dict(table)
    with as_cuda.install("a100"):
        assert id(torch.zeros_like) in table and table != before
    assert table == before


def test_types_of_before_devices(cuda):
    x = torch.ones(2, device="cuda")
    assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.LongTensor)
    assert not isinstance(torch.ones(2), torch.cuda.FloatTensor) and torch.ones(2).type("torch.DoubleTensor").dtype == torch.float64
    assert x.type(torch.cuda.HalfTensor).dtype == torch.float16 and x.type(torch.float64).dtype == torch.float64
    assert torch.cuda.FloatTensor(2, 3).shape == (2, 3) and torch.cuda.LongTensor([1, 2]).tolist() == [1, 2]


def test_to_its_own_device_is_the_same_tensor(cuda):
    x = torch.ones(2, device="cuda")
    assert x.to("cuda") is x and x.cuda() is x and x.to(torch.device("cuda", 0)) is x


def test_pytorch_and_this_package_see_the_virtual_gpu(cuda):
    x = torch.ones(2, device="cuda")
    assert eval("x.device", {"x": x, "__name__": "torch.optim.adam"}) == DEVICE
    assert eval("x.device", {"x": x, "__name__": "gapless.measure.profile"}) == DEVICE
    assert eval("torch.cuda.is_available()", {"torch": torch, "__name__": "torch.utils.checkpoint"}) is False
    assert asked("x.device.type", x=x) == "cuda" == eval("x.device.type", {"x": x, "__name__": "torchvision.ops"})


def test_torch_cuda_answers_for_the_card(cuda):
    assert asked("torch.cuda.is_available()") and asked("torch.cuda.device_count()") == 1
    assert asked("torch.cuda.current_device()") == 0
    assert torch.cuda.get_device_name(0) == vgpu.card().name == torch.cuda.get_device_properties("cuda").name
    x = torch.ones(1000, device="cuda")
    assert torch.cuda.memory_allocated() == vgpu.memory().allocated_bytes >= x.nbytes
    before = len(vgpu.timeline().streams)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() != torch.cuda.default_stream()
        y = x + 1
    torch.cuda.current_stream().wait_stream(side)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    y.add_(1)
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0 and len(vgpu.timeline().streams) > before
    asked("torch.cuda.manual_seed_all(3)")
    a = torch.rand(3, device="cuda")
    torch.cuda.manual_seed(3)
    assert torch.equal(a, torch.rand(3, device="cuda"))
    torch.cuda.set_device("cuda:0")
    with torch.cuda.device(0):
        assert torch.cuda.get_device_capability() == (8, 0)


def test_mixed_precision_trains_as_on_the_device_by_its_own_name(cuda):
    def train(name):
        torch.manual_seed(0)
        model = nn.Linear(8, 4).to(name)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(name)
        for _ in range(3):
            with torch.autocast(name, dtype=torch.float16):
                out = model(torch.ones(2, 8, device=name))
            assert out.dtype == torch.float16
            optimizer.zero_grad()
            scaler.scale(out.float().pow(2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        return model.weight.detach().cpu()

    assert torch.equal(train("cuda"), train("vgpu"))
    with torch.cuda.amp.autocast():
        assert torch.is_autocast_enabled() and torch.get_autocast_dtype("cuda") == torch.float16
    assert torch.cuda.amp.GradScaler().is_enabled() and not torch.is_autocast_enabled("cuda")


def test_files(cuda):
    state, buffer = nn.Linear(2, 2).cuda().state_dict(), io.BytesIO()
    torch.save(state, buffer)
    assert b"cuda:0" in buffer.getvalue() and b"vgpu" not in buffer.getvalue()  # it loads elsewhere, too
    for place in ("cuda", "cuda:0", torch.device("cuda"), None, {"vgpu:0": "cuda:0"}):
        buffer.seek(0)
        found = torch.load(buffer, map_location=place)["weight"]
        assert isinstance(found, VirtualTensor) and torch.equal(found, state["weight"])
    told = []
    for place in ("cpu", {"cuda:0": "cpu"}, lambda storage, location: told.append(location) or storage):
        buffer.seek(0)
        assert torch.load(buffer, map_location=place)["weight"].device.type == "cpu"
    assert set(told) == {"cuda:0"}


def test_a_file_of_a_real_gpu():
    storage = torch.serialization._package_registry
    with as_cuda.install("a100"):
        made = torch.serialization.default_restore_location(torch.ones(4).untyped_storage(), "cuda:0")
        assert made.device == torch.device("cuda", 0) and isinstance(made, VirtualStorage)
    assert torch.serialization._package_registry is storage


def test_default_device_and_device_contexts(cuda):
    with torch.device("cuda"):
        assert isinstance(torch.ones(2), VirtualTensor) and isinstance(nn.Linear(2, 2).weight, VirtualTensor)
    torch.set_default_device("cuda")
    try:
        assert isinstance(torch.zeros(2), VirtualTensor)
    finally:
        torch.set_default_device(None)
    assert asked("torch.accelerator.current_accelerator().type") == "cuda"
    with torch.device("cuda"):
        assert asked("torch.get_default_device()") == torch.device("cuda", 0)
    assert asked("torch.get_default_device()").type == "cpu"


def test_another_card_is_refused_as_cuda_does(cuda):
    for code in ("torch.ones(2, device='cuda:1')", "torch.ones(2).cuda(1)", "torch.ones(2).to(3)", "torch.cuda.set_device(1)"):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            asked(code)


def test_a_process_of_several():
    with as_cuda.install("a100", index=1, count=2):
        assert asked("torch.cuda.device_count()") == 2 and asked("torch.cuda.current_device()") == 1
        x = torch.ones(2, device="cuda:1")
        assert asked("x.device.index", x=x) == 1 and x.allocation is not None
        with pytest.raises(RuntimeError, match="this process has one: cuda:1"):
            torch.ones(2, device="cuda:0")
    with pytest.raises(ValueError, match="none of 1"), as_cuda.install(index=1):
        pass


def test_on_the_cpu_instead():
    with as_cuda.install(on_cpu=True):
        assert type(torch.ones(2, device="cuda")) is torch.Tensor and type(nn.Linear(2, 2).cuda().weight) is nn.Parameter


def test_afterwards_all_is_as_before():
    watched = [(torch, "zeros"), (torch.Tensor, "to"), (torch.Tensor, "cuda"), (torch.cuda, "is_available"), (torch, "load"),
               (torch.cuda.memory, "memory_allocated"), (torch.amp.GradScaler, "__init__"), (torch._C._nn, "_parse_to"),
               (VirtualTensor, "device"), (nn.Module, "cuda"), (torch.cuda, "FloatTensor"), (torch, "is_autocast_enabled")]
    before = [getattr(*each) for each in watched]
    x = torch.ones(2, device=DEVICE)
    with as_cuda.install("a100"):
        assert [getattr(*each) for each in watched] != before
        with pytest.raises(RuntimeError, match="already"), as_cuda.install():
            pass
    assert [getattr(*each) for each in watched] == before
    assert asked("x.device", x=x) == DEVICE and not asked("x.is_cuda", x=x)


def test_a_process_for_each_card_is_this_one():
    calls = []
    with as_cuda.install("a100", index=1, count=2):
        context = torch.multiprocessing.spawn(lambda *args: calls.append(args), args=("a",), nprocs=2, join=False)
        assert calls == [(1, "a")] and context.join() and not context.pids()
        assert torch.multiprocessing.spawn(lambda rank: exit(0), nprocs=2) is None
        with pytest.raises(SystemExit):
            torch.multiprocessing.spawn(lambda rank: exit(3), nprocs=2)
        with pytest.raises(RuntimeError, match=r"run --gpus 3"):
            torch.multiprocessing.spawn(calls.append, nprocs=3)


def test_graphed_callables(cuda):
    torch.manual_seed(0)
    x, model = torch.randn(4, 8, device="cuda"), nn.Linear(8, 2).cuda()
    wanted = model(x).cpu()
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    assert torch.equal(graphed(x).cpu(), wanted)


def test_the_accelerator_has_the_program_s_numbers():
    with as_cuda.install("a100", index=1, count=2):
        assert asked("torch.accelerator.device_count()") == 2
        assert asked("torch.accelerator.current_device_index()") == 1
        for own in ("1", "'cuda:1'", "torch.device('cuda', 1)", "torch.device('cuda')"):
            asked(f"torch.accelerator.set_device_index({own})")
            asked(f"torch.accelerator.synchronize({own})")
        assert asked("torch.accelerator.memory_allocated(1)") == asked("torch.accelerator.memory_allocated()")
        with asked("torch.accelerator.device_index(1)"):
            assert asked("torch.accelerator.current_accelerator()") == torch.device("cuda")
        for other in ("set_device_index(0)", "device_index(0)", "synchronize('cuda:0')"):
            with pytest.raises(RuntimeError, match="invalid device ordinal"):
                asked(f"torch.accelerator.{other}")
    assert torch.accelerator.device_count() == 1
