"""Views by the short way are as by the long one: values, memory, clock, trace and errors."""

import gc

import pytest
import torch

from gapless import vgpu
from gapless.measure.profile import profile
from gapless.vgpu.core import view_operators
from gapless.vgpu.core.dispatch import Operator

aten = torch.ops.aten

VIEWS = {
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, -1),
    "view": lambda x: x.view(-1),
    "a view of bytes": lambda x: x.view(torch.uint8),
    "select": lambda x: x[1],
    "slice": lambda x: x[1:, ::2],
    "expand": lambda x: x.unsqueeze(0).expand(3, -1, -1),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2), 1),
    "detach": lambda x: x.detach(),
    "unbind": lambda x: x.unbind(1),
    "split": lambda x: x.split([1, 3], dim=1),
    "chunk": lambda x: x.chunk(2),
    "an integer read": lambda x: x.select(0, torch.ones((), dtype=torch.int64, device=x.device)),
}


@pytest.fixture(autouse=True)
def without_collector():
    """What other tests have left behind dies before, not meanwhile: it has memory, and Python that runs as it dies."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def parts(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("name", VIEWS)
def test_values_are_the_cpus_and_the_memory_the_bases(name, device):
    x = torch.arange(8.0).view(2, 4)
    base = x.to(device)
    taken = vgpu.memory().allocated_bytes
    for want, got in zip(parts(VIEWS[name](x)), parts(VIEWS[name](base)), strict=True):
        assert got.allocation is base.allocation
        assert (got.shape, got.stride(), got.storage_offset()) == (want.shape, want.stride(), want.storage_offset())
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)
        got.zero_()
        want.zero_()
    del got
    torch.testing.assert_close(base.cpu(), x, rtol=0, atol=0)
    assert vgpu.memory().allocated_bytes == taken


@pytest.mark.slow
@pytest.mark.parametrize("shape_only", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_the_long_way_takes_as_long_and_leaves_the_same_trace(name, shape_only, device, monkeypatch):
    def recorded():
        vgpu.timeline().reset()
        x = torch.ones(2, 4, device=device)
        trace = profile(lambda: VIEWS[name](x), steps=2, warmup=1, device=device)
        mask = VIEWS[name](x > 0)
        return trace.to_bytes(), vgpu.timeline().host_ns, [getattr(each, "density", None) for each in parts(mask)]

    def both():
        recorded()  # what PyTorch does once in a process
        short = recorded()
        with monkeypatch.context() as patch:
            patch.setattr(view_operators, "run", lambda operator, args, kwargs: NotImplemented)
            return short, recorded()

    if shape_only:
        with vgpu.shape_only():
            short, long = both()
    else:
        short, long = both()
    assert short == long


def test_errors_are_pytorchs(device):
    x = torch.ones(2, 4, device=device)
    before = vgpu.timeline().host_ns
    with pytest.raises(RuntimeError, match="is invalid for input of size 8"):
        x.view(3, 3)
    with pytest.raises(IndexError):
        x.select(0, 5)
    assert vgpu.timeline().host_ns - before == 2 * vgpu.timeline().host.view_ns


def test_what_is_more_than_a_view_goes_the_long_way():
    plain = [Operator(func).is_plain_view for func in (aten.t.default, aten.detach.default, aten.unbind.int, aten._conj.default)]
    others = [Operator(func).is_plain_view for func in
              (aten.t_.default, aten.set_.source_Storage, aten.clone.default, aten.empty_like.default)]
    assert plain == [True] * 4
    assert others == [False] * 4
