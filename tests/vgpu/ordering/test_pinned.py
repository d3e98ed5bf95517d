"""Pinned host memory: factories, loaders, copies that do not block."""

import pytest
import torch

from gapless import vgpu
from gapless.vgpu.ordering import pinned


def arguments(name):
    like = (torch.zeros(2, 3),)
    special = {"full": ((2, 3), 1.5), "full_like": (*like, 1.5), "randint": (5, (2, 3)), "randint_like": (*like, 5),
               "randperm": (5,), "arange": (5,), "linspace": (0, 1, 5), "logspace": (0, 1, 5), "eye": (3,),
               "tensor": ([1.0, 2.0],), "empty_strided": ((2, 3), (1, 2)), "empty_permuted": ((2, 3), (1, 0))}
    return special.get(name, like if name.endswith("_like") else ((2, 3),))


@pytest.mark.parametrize("name", pinned.FACTORIES)
def test_factories(name, device):
    factory = getattr(torch, name)
    torch.manual_seed(0)
    found = factory(*arguments(name), pin_memory=True)
    torch.manual_seed(0)
    expected = factory(*arguments(name))
    assert found.is_pinned()
    assert not expected.is_pinned()
    assert (found.shape, found.stride(), found.dtype) == (expected.shape, expected.stride(), expected.dtype)
    if "empty" not in name:
        assert torch.equal(found, expected)
    else:
        assert found.isnan().all()  # nobody takes it for a value


@pytest.mark.parametrize("name", pinned.METHODS)
def test_methods(name, device):
    special = {"new_full": ((2, 3), 1.5), "new_empty_strided": ((2, 3), (1, 2))}
    found = getattr(torch.zeros(2), name)(*special.get(name, ((2, 3),)), pin_memory=True)
    assert found.is_pinned()


def test_gradients_of_a_pinned_leaf(device):
    x = torch.ones(2, pin_memory=True, requires_grad=True)
    (x.to(device, non_blocking=True) * 2).sum().backward()
    assert x.is_leaf
    assert x.grad.tolist() == [2, 2]


def test_what_is_on_the_device_cannot_be_pinned(device):
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device=device, pin_memory=True)
    with pytest.raises(RuntimeError, match="cannot pin 'torch.vgpu.FloatTensor' only dense CPU tensors can be pinned"):
        torch.ones(2, device=device).pin_memory()


def test_the_default_device_still_reaches_the_factories(device):
    with torch.device(device):
        assert {getattr(torch, name)(*arguments(name)).device for name in pinned.FACTORIES} == {device}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_factories_in_torchscript(device):
    @torch.jit.script
    def made(x):
        return x + torch.ones([2])

    assert made(torch.zeros(2)).tolist() == [1, 1]


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.full((3,), float(i)), {"label": i}


@pytest.mark.parametrize("options", [{}, {"pin_memory_device": "vgpu"}, {"persistent_workers": True}], ids=lambda o: str(*o))
@pytest.mark.filterwarnings("ignore:.*pin_memory_device")
def test_a_loader_with_workers_feeds_the_device(options, device, waits):
    loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2, pin_memory=True, **options)
    seen = []
    for x, extra in loader:
        assert x.is_pinned() and extra["label"].is_pinned()
        with waits() as found:
            x, label = x.to(device, non_blocking=True), extra["label"].to(device, non_blocking=True)
        assert not found
        assert x.device == label.device == device
        seen += label.tolist()
    assert seen == list(range(8))


@pytest.mark.parametrize("pin, non_blocking, waits_expected", [(True, True, 0), (True, False, 1), (False, False, 1)])
def test_only_pinned_copies_that_may_do_not_wait(pin, non_blocking, waits_expected, device, waits):
    x = torch.empty(100_000, pin_memory=pin)
    with waits() as found:
        x.to(device, non_blocking=non_blocking)
    assert len(found) == waits_expected


def test_a_copy_into_pinned_memory_that_may_not_block(device, waits):
    host = torch.empty(100_000, pin_memory=True)
    x = torch.ones(100_000, device=device)
    with waits() as found:
        host.copy_(x, non_blocking=True)
    assert not found
    torch.vgpu.synchronize()
    assert host.sum() == 100_000


@pytest.mark.parametrize("turn", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x], ids=["transposed", "strided", "as it is"])
def test_a_copy_out_to_pinned_memory_is_made_contiguous_on_the_device(device, turn):
    x = torch.arange(60.0).view(6, 10)
    source, waits = turn(x.to(device)), []
    host = torch.empty(source.shape, pin_memory=True)
    vgpu.timeline().wait_hooks.append(waits.append)
    try:
        host.copy_(source, non_blocking=True)
        assert not waits
    finally:
        vgpu.timeline().wait_hooks.clear()
    torch.vgpu.synchronize()
    assert torch.equal(host, turn(x))


def test_what_is_saved_on_the_host_is_pinned_if_asked(device):
    weight, x = torch.randn(8, 8, device=device, requires_grad=True), torch.randn(4, 8, device=device)
    waits = []
    vgpu.timeline().wait_hooks.append(waits.append)
    try:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            y = (x @ weight).relu()
        y.sum().backward()
        assert not waits
    finally:
        vgpu.timeline().wait_hooks.clear()
    expected = x.t() @ (y > 0).float()
    assert torch.equal(weight.grad.cpu(), expected.cpu())
    assert isinstance(torch.autograd.graph.save_on_cpu(), torch.autograd.graph.saved_tensors_hooks)
