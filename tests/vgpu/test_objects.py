"""Modules and tensors as Python objects: moving, copying, saving, loading, printing."""

import copy
import io
import pickle
import warnings
from contextlib import nullcontext
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils._per_sample_grad import call_for_per_sample_grads

from gapless import vgpu


def tied():
    """Two layers with one weight."""
    first, last = nn.Linear(3, 3), nn.Linear(3, 3)
    last.weight = first.weight
    return nn.Sequential(first, nn.BatchNorm1d(3), last)


X = torch.linspace(-1, 1, 12).view(4, 3)


def train(module, optimizer, device, steps=2):
    for _ in range(steps):
        optimizer.zero_grad()
        module(X.to(device)).pow(2).sum().backward()
        optimizer.step()


# -- moving -----------------------------------------------------------------------------------------


def test_parameters_stay_the_same_objects(device):
    module = tied()
    before = [id(p) for p in module.parameters()]
    for where in (device, "cpu", device):
        assert [id(p) for p in module.to(where).parameters()] == before
        assert module[0].weight is module[2].weight
        assert {p.device.type for p in module.parameters()} == {torch.device(where).type}
        assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in module.parameters())
    assert [id(p) for p in module.double().parameters()] == before
    assert type(module.cpu()[0].weight) is nn.Parameter


def test_shared_weights_train_as_on_the_cpu(device):
    torch.manual_seed(0)
    here, there = tied(), None
    there = copy.deepcopy(here).to(device)
    for module, where in ((here, "cpu"), (there, device)):
        train(module, torch.optim.SGD(module.parameters(), lr=0.1), where)
    torch.testing.assert_close([p.detach().cpu() for p in there.parameters()], [p.detach() for p in here.parameters()])


def test_an_optimizer_made_before_the_move_trains_the_module(device):
    torch.manual_seed(0)
    module = nn.Linear(3, 3)
    expected = copy.deepcopy(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module.to(device)
    train(module, optimizer, device)
    train(expected, torch.optim.SGD(expected.parameters(), lr=0.1), "cpu")
    torch.testing.assert_close(module.weight.detach().cpu(), expected.weight.detach())


def test_gradients_move_too(device):
    module = nn.Linear(3, 3)
    module(X).sum().backward()
    expected = module.weight.grad.clone()
    module.to(device)
    assert module.weight.grad.device == device
    torch.testing.assert_close(module.weight.grad.cpu(), expected)
    assert module.cpu().weight.grad.device.type == "cpu"


def test_moving_costs_a_copy_for_each_parameter(device, waits):
    with waits() as found:
        nn.Linear(3, 3).to(device)
    assert len(found) == 2


def test_a_parameter_that_somebody_watches_still_moves(device):
    import weakref

    module = nn.Linear(3, 3)
    watched, watcher = module.weight, weakref.ref(module.weight)
    for where in (device, torch.device("cpu"), device):
        assert module.to(where).weight is watched is watcher()
        assert watched.device == where and isinstance(watched, nn.Parameter)


def test_data_may_come_from_the_other_side(device):
    module = nn.Linear(3, 3)
    weight = module.weight
    module(X).sum().backward()
    gradient = weight.grad.clone()
    for where in (device, torch.device("cpu")):
        for parameter in module.parameters():
            parameter.data = parameter.data.to(where)
            if parameter.grad is not None:
                parameter.grad.data = parameter.grad.data.to(where)
        assert module.weight is weight and weight.requires_grad and weight.grad.device == weight.device == where
        torch.testing.assert_close(weight.grad.cpu(), gradient)
        torch.optim.SGD(module.parameters(), lr=0.1).step()
    x = torch.ones(2, device=device)
    torch.Tensor.data.__set__(x, torch.zeros(3, device=device))
    assert (x + 1).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="detach"):
        (torch.ones(3, requires_grad=True) * 2).data = x


def test_script_modules_move_and_load(device):
    module = torch.jit.script(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    expected = module(X)
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    for moved in (torch.jit.load(file, map_location=device), module.to(device)):
        moved.eval()
        assert {t.device for t in moved.state_dict().values()} == {device}
        moved.train()
        torch.testing.assert_close(moved(X.to(device)).cpu(), expected)
        moved(X.to(device)).sum().backward()
        assert next(moved.parameters()).grad.device == device
    assert next(module.cpu().parameters()).device.type == "cpu"


def test_empty_modules_get_memory(device):
    module = nn.Linear(3, 3, device="meta").to_empty(device=device)
    assert module.weight.device == device


def test_tensors_are_told_apart(device):
    tensors = [torch.ones(3, device=device) for _ in range(3)]
    assert len({t.data_ptr() for t in tensors}) == 3
    with vgpu.shape_only():
        tensors = [torch.ones(3, device=device) for _ in range(3)]
        assert len({t.data_ptr() for t in tensors}) == 3
        assert tensors[0][1:].data_ptr() == tensors[0].data_ptr() + 4


# -- copying ----------------------------------------------------------------------------------------


def test_no_attribute_of_ours_hides_one_of_pytorchs(device):
    x = torch.ones(2, device=device)
    assert vars(x) and not {name for name in vars(x) if hasattr(torch.Tensor, name)} and x.inner(x).item() == 2


def test_deep_copies(device):
    module = tied().to(device)
    module(X.to(device)).sum().backward()
    copied = copy.deepcopy(module)
    assert copied[0].weight is copied[2].weight
    assert copied[0].weight is not module[0].weight
    with torch.no_grad():
        copied[0].weight.zero_()
        copied[1].running_mean.zero_()
    assert module[0].weight.abs().sum() > 0
    assert module[1].running_mean.abs().sum() > 0
    assert torch.equal(copied[0].bias.grad, module[0].bias.grad)


def test_averaged_models(device):
    module = nn.Linear(2, 2).to(device)
    averaged = torch.optim.swa_utils.AveragedModel(module)
    averaged.update_parameters(module)
    torch.testing.assert_close(averaged.module.weight, module.weight)


# -- saving and loading -----------------------------------------------------------------------------


def saved(what, **options):
    file = io.BytesIO()
    torch.save(what, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("source, zipped", [("cpu", True), ("cpu", False), ("vgpu", True)])
@pytest.mark.parametrize("target", ["cpu", "vgpu", "vgpu:0", {"cpu": "vgpu", "vgpu:0": "vgpu:0"}, None], ids=str)
def test_checkpoints_go_either_way(source, target, zipped, device):
    torch.manual_seed(0)
    module = tied().to(source)
    optimizer = torch.optim.AdamW(module.parameters())
    train(module, optimizer, source)
    file = saved({"module": module.state_dict(), "optimizer": optimizer.state_dict(), "step": 2},
                 _use_new_zipfile_serialization=zipped)
    loaded = torch.load(file, map_location=target)
    where = (source if target is None else "vgpu") if not isinstance(target, str) else target.split(":")[0]
    assert {t.device.type for t in loaded["module"].values()} == {where}
    other = tied().to(where)
    other.load_state_dict(loaded["module"])
    state = torch.optim.AdamW(other.parameters())
    state.load_state_dict(loaded["optimizer"])
    train(module, optimizer, source)
    train(other, state, where)
    torch.testing.assert_close([p.detach().cpu() for p in other.parameters()], [p.detach().cpu() for p in module.parameters()])


def test_tensors_of_a_file_share_memory_on_the_device_as_in_the_file(device):
    x = torch.arange(6.0)
    loaded, view = torch.load(saved((x, x[2:])), map_location=device)
    loaded.zero_()
    assert view.tolist() == [0, 0, 0, 0]


def test_loading_to_the_device_copies(device, waits):
    file = saved(torch.ones(3))
    with waits() as found:
        torch.load(file, map_location=device)
    assert len(found) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_dtypes_survive(dtype, device):
    x = torch.tensor([0, 1, 1], device=device).to(dtype)
    for found in (torch.load(saved(x)), pickle.loads(pickle.dumps(x)), torch.load(saved(x.cpu()), map_location=device)):
        assert (found.dtype, found.device) == (dtype, device)
        assert torch.equal(found, x)


def test_what_needs_gradients_still_does(device):
    x = torch.ones(2, device=device, requires_grad=True)
    for found in (torch.load(saved(x)), pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert found.requires_grad and found.is_leaf
    parameter = torch.load(saved(nn.Parameter(torch.ones(2, device=device))), weights_only=False)
    assert isinstance(parameter, nn.Parameter) and parameter.device == device


def test_whole_modules(device):
    module = tied().to(device).eval()
    for found in (torch.load(saved(module), weights_only=False), pickle.loads(pickle.dumps(module))):
        assert found[0].weight is found[2].weight
        assert torch.equal(found(X.to(device)), module(X.to(device)))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("target", [None, "cpu", "vgpu", {"vgpu:0": "cpu"}, lambda storage, place: storage,
                                    lambda storage, place: storage.to(device="vgpu:0")])
def test_views_stay_views_in_a_file(target, weights_only, zipped, device):
    x = torch.arange(6.0, device=device)
    file = saved([x, x[2:], x.view(2, 3).t()], _use_new_zipfile_serialization=zipped)
    whole, tail, turned = torch.load(file, map_location=target, weights_only=weights_only)
    whole[3] = 9
    assert tail.tolist() == [2, 9, 4, 5] and turned.tolist() == [[0, 9], [1, 4], [2, 5]]
    assert turned.stride() == (1, 3)


def test_views_stay_views_in_a_deep_copy(device):
    x = torch.arange(6.0, device=device)
    before = torch.vgpu.memory_allocated()
    whole, tail, again = copy.deepcopy([x, x[2:], x])
    assert again is whole and torch.vgpu.memory_allocated() == before + 512
    whole[3] = 9
    assert tail.tolist() == [2, 9, 4, 5] and x[3].item() == 3


def test_what_a_program_hangs_on_a_parameter(device):
    parameter = nn.Parameter(torch.ones(2, device=device))
    parameter.group = "slow"
    for found in (copy.deepcopy(parameter), torch.load(saved(parameter), weights_only=False)):
        assert found.group == "slow" and isinstance(found, nn.Parameter)


def test_a_file_mapped_into_memory(device, tmp_path):
    torch.save(nn.Linear(3, 3).to(device).state_dict(), tmp_path / "weights.pt")
    for where, kind in ((device, "vgpu"), ("cpu", "cpu"), (None, "vgpu")):
        assert torch.load(tmp_path / "weights.pt", mmap=True, map_location=where)["weight"].device.type == kind


def test_a_file_loads_without_values(device):
    file = saved(torch.ones(2))
    with vgpu.shape_only():
        assert torch.load(file, map_location=device).shape == (2,)


# -- printing, NumPy --------------------------------------------------------------------------------


@pytest.mark.parametrize("tensor, text", [
    (torch.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000], device='vgpu:0')"),
    (torch.tensor([1, 2], dtype=torch.int32), "tensor([1, 2], device='vgpu:0', dtype=torch.int32)"),
    (torch.tensor(3.0, dtype=torch.float16), "tensor(3., device='vgpu:0', dtype=torch.float16)"),
    (torch.tensor([1.0], requires_grad=True), "tensor([1.], device='vgpu:0', requires_grad=True)"),
    (torch.empty(0, 2), "tensor([], device='vgpu:0', size=(0, 2))"),
])
def test_tensors_print_as_on_cuda(tensor, text, device):
    on_device = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
    assert repr(on_device) == text


def test_parameters_and_results_print_as_on_cuda(device):
    parameter = nn.Parameter(torch.ones(1, device=device))
    assert repr(parameter) == "Parameter containing:\ntensor([1.], device='vgpu:0', requires_grad=True)"
    with warnings.catch_warnings(action="ignore"):  # torch 2.14 warns of it once
        quantized = torch.quantize_per_tensor(parameter.detach(), 0.1, 0, torch.qint8)
    assert repr(quantized) == "tensor([1.], device='vgpu:0', dtype=torch.qint8)"
    assert repr(parameter * 2) == "tensor([2.], device='vgpu:0', grad_fn=<MulBackward0>)"
    with vgpu.shape_only():
        assert repr(torch.ones(2, device=device)) == "tensor([0., 0.], device='vgpu:0', values unknown)"


def test_numpy_needs_a_copy(device):
    x = torch.arange(3.0, device=device)
    for convert in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.sin(x)):
        with pytest.raises(TypeError, match=r"can't convert vgpu:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
            convert()
    assert x.numpy(force=True).tolist() == x.cpu().numpy().tolist() == x.tolist() == [0, 1, 2]


def test_from_numpy(device):
    assert torch.as_tensor(np.arange(3), device=device).tolist() == [0, 1, 2]


# -- classes of the program's own -------------------------------------------------------------------


class Labelled(torch.Tensor):
    """Says who it is, as a library's metadata tensors do."""

    seen: ClassVar[list] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Tagged(nn.Parameter):
    pass


def test_a_subclass_stays_one_on_the_device_and_back(device):
    x = torch.arange(3.0).as_subclass(Labelled).to(device)
    Labelled.seen.clear()
    y = (x * 2).sum()
    assert isinstance(y, Labelled) and Labelled.seen == ["mul", "sum"]
    assert y.device == device and y.as_subclass(torch.Tensor).item() == 6
    assert type(x.cpu()) is Labelled
    assert type(type(x)(torch.ones(2))) is Labelled


@pytest.mark.parametrize("made", [lambda x: x.as_subclass(Labelled), Tagged, lambda x: Tagged(x, requires_grad=False)[0]])
def test_a_subclass_prints_its_name(device, made):
    on_cpu = repr(made(torch.arange(2.0)))
    place = on_cpu.index("]") + 1 if "]" in on_cpu else on_cpu.index(".") + 1
    assert repr(made(torch.arange(2.0, device=device))) == f"{on_cpu[:place]}, device='{device}'{on_cpu[place:]}"


def test_a_number_that_its_dtype_cannot_hold_is_refused_as_on_the_cpu(device):
    for dtype, number in ((torch.float32, 1j), (torch.int8, 300), (torch.int32, float("nan"))):
        for where in (device, "cpu"):
            with pytest.raises(RuntimeError, match="value cannot be converted to type"):
                torch.zeros(2, dtype=dtype, device=where)[0] = number


def test_a_subclass_is_differentiable(device):
    x = torch.ones(3, device=device, requires_grad=True)
    (x.as_subclass(Labelled) * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert isinstance(torch.Tensor._make_subclass(Labelled, x), Labelled)
    assert isinstance(Tagged(x.detach()), Tagged)


def test_gradients_of_each_sample(device):
    layer = nn.Linear(2, 1).to(device)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    call_for_per_sample_grads(layer)(x).sum().backward()  # its weights are of a class that refuses most functions
    assert layer.weight.grad_sample.tolist() == [[[1, 2]], [[3, 4]]]


def test_a_parameter_keeps_its_class_and_what_hangs_on_it(device):
    module = nn.Linear(2, 2)
    module.own = Tagged(torch.ones(2))
    module.weight.no_decay, module.own.tag = True, "t"
    before = module.own, module.weight
    for place in (device, "cpu", device):
        module.to(place)
        assert (module.own, module.weight) == before
        assert module.weight.no_decay and module.own.tag == "t"
        assert isinstance(module.own, Tagged) and isinstance(module.weight, nn.Parameter)
    assert module.own.device == device
    module.cpu()
    assert type(module.own) is Tagged and type(module.weight) is nn.Parameter


class Halved(torch.Tensor):
    """Holds what it stands for in another dtype, as quantised weights do."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=torch.float32, device=held.device)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func._schema.name in ("aten::detach", "aten::_to_copy"):
            options = {name: value for name, value in (kwargs or {}).items() if name != "dtype"}
            return cls(func(args[0].held, **options))
        return func(*[each.held.float() if isinstance(each, cls) else each for each in args], **(kwargs or {}))


@pytest.mark.parametrize("order", ["made there", "moved there"])
def test_a_wrapper_may_hold_tensors_of_the_device(order, device):
    layer = nn.Linear(3, 2)
    if order == "made there":
        layer.to(device)
    layer.weight = nn.Parameter(Halved(layer.weight.detach().half()), requires_grad=False)
    layer.to(device)
    x = torch.ones(4, 3, device=device)
    assert isinstance(layer.weight.data, Halved) and layer.weight.data.held.device == device
    torch.testing.assert_close(layer(x).cpu(), nn.functional.linear(x.cpu(), layer.weight.data.held.float().cpu(), layer.bias.cpu()))
    assert (x @ Halved(torch.ones(3, 2, dtype=torch.half, device=device))).sum().item() == 24


@pytest.mark.parametrize("place", ["made there", "made there by default", "moved there"])
def test_lazy_modules_learn_their_sizes_on_the_device(place, device):
    named = {"device": device} if place == "made there" else {}
    with device if place == "made there by default" else nullcontext():
        network = nn.Sequential(nn.LazyLinear(3, **named), nn.LazyBatchNorm1d(**named))
    if place == "moved there":
        network.to(device)
    weight = network[0].weight
    assert weight.device == network[1].running_mean.device == device, "before they have values, too"
    network(torch.ones(2, 4, device=device)).sum().backward()
    assert network[0].weight is weight and weight.shape == (3, 4) and weight.device == weight.grad.device == device
    assert network[1].running_mean.device == device


def test_lazy_modules_keep_their_device_when_they_change_their_dtype(device):
    network = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).to(device).double()
    network(torch.ones(2, 4, device=device, dtype=torch.float64)).sum().backward()
    assert {(each.device, each.dtype) for each in (*network.parameters(), network[1].running_mean)} == {(device, torch.float64)}


def test_a_parameters_class_makes_parameters(device):
    """As libraries that offload do: ``type(parameter)(values, requires_grad=…)``."""
    kind = type(nn.Parameter(torch.ones(2, device=device)))
    for made, wanted in ((kind(torch.zeros(2)), ("cpu", True)), (kind(torch.zeros(2), requires_grad=False), ("cpu", False)),
                         (kind(torch.zeros(2, device=device), False), ("vgpu", False)),
                         (kind(torch.zeros(2, device="meta"), True), ("meta", True))):
        assert isinstance(made, nn.Parameter) and (made.device.type, made.requires_grad) == wanted
