"""Which idioms make the host wait, and how often: PyTorch's own CUDA behaviour, idiom by idiom."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gapless import vgpu

BIG = 100_000  # elements: more than the driver puts aside of a pageable copy


class Things:
    """Tensors on the device and on the host for the idioms to use."""

    def __init__(self, device):
        self.device = device
        self.host = torch.arange(6.0).view(2, 3)
        self.x = self.host.to(device)
        self.mask = self.x > 2
        self.index = torch.tensor([1, 0]).to(device)
        self.one = torch.tensor(1).to(device)
        self.number = torch.tensor(7.0).to(device)
        self.labels = torch.tensor([0, 1]).to(device)
        self.big = torch.zeros(BIG)
        self.pinned = self.big.pin_memory()
        self.big_x = self.big.to(device)


def assign(x, index, value):
    x[index] = value


WAITS = {
    # read-backs
    "item": (1, lambda t: t.number.item()),
    "bool": (1, lambda t: bool(t.one)),
    "if": (1, lambda t: 1 if t.number > 3 else 0),
    "float": (1, lambda t: float(t.number)),
    "int": (1, lambda t: int(t.one)),
    "as an index of a list": (1, lambda t: [1, 2, 3][t.one]),
    "range": (1, lambda t: list(range(t.one))),
    "in an f-string": (1, lambda t: f"{t.number:.2f}"),
    "tolist": (1, lambda t: t.x.tolist()),
    "cpu": (1, lambda t: t.x.cpu()),
    "to cpu": (1, lambda t: t.x.to("cpu")),
    "cpu then numpy": (1, lambda t: t.x.cpu().numpy()),
    "repr": (1, lambda t: repr(t.x)),
    "print of a number": (1, lambda t: str(t.number)),
    "equal": (1, lambda t: torch.equal(t.x, t.x.clone())),
    "allclose": (1, lambda t: torch.allclose(t.x, t.x)),
    "a loop over rows": (0, lambda t: [row.sum() for row in t.x]),
    "a loop over numbers": (2, lambda t: [n.item() for n in t.labels]),
    # sizes that depend on values
    "nonzero": (1, lambda t: t.x.nonzero()),
    "nonzero as a tuple": (1, lambda t: t.x.nonzero(as_tuple=True)),
    "argwhere": (1, lambda t: torch.argwhere(t.x)),
    "where with one argument": (1, lambda t: torch.where(t.mask)),
    "where with a tensor on the host": (1, lambda t: torch.where(t.mask, torch.tensor(0.0), t.x)),
    "where with a condition on the host": (1, lambda t: torch.where(torch.tensor(True), t.x, -t.x)),
    "x[mask]": (1, lambda t: t.x[t.mask]),
    "x[mask], rows": (1, lambda t: t.x[t.labels > 0]),
    "x[mask, mask]": (2, lambda t: t.x[:, :2][t.labels > -1, t.labels > -1]),
    "masked_select": (1, lambda t: torch.masked_select(t.x, t.mask)),
    "unique": (1, lambda t: torch.unique(t.x)),
    "unique with counts": (1, lambda t: torch.unique(t.x, return_counts=True)),
    "unique of rows": (1, lambda t: torch.unique(t.x, dim=0)),
    "unique_consecutive": (1, lambda t: torch.unique_consecutive(t.x)),
    "bincount": (2, lambda t: torch.bincount(t.labels)),
    "bincount with minlength": (2, lambda t: torch.bincount(t.labels, minlength=10)),
    "histc without limits": (2, lambda t: torch.histc(t.x)),
    "repeat_interleave": (1, lambda t: torch.repeat_interleave(t.x, t.labels, dim=0)),
    "one_hot without classes": (1, lambda t: F.one_hot(t.labels)),
    # indexing
    "x[0-dim index]": (1, lambda t: t.x[t.one]),
    "x[:, 0-dim index]": (1, lambda t: t.x[:, t.one]),
    "x[mask] = device number": (1, lambda t: assign(t.x, t.mask, t.number)),
    "x[mask] = device values": (1, lambda t: assign(t.x, t.mask, t.x[0].clone())),
    "x[cpu index]": (1, lambda t: t.x[torch.tensor([1, 0])]),
    "x[list]": (1, lambda t: t.x[[1, 0]]),
    "x[cpu mask]": (2, lambda t: t.x[t.host > 2]),  # positions of two dimensions, a copy each
    "x[0] = cpu row": (1, lambda t: assign(t.x, 0, torch.zeros(3))),
    "x[0, 0] = 1.0": (1, lambda t: assign(t.x, (0, 0), 1.0)),  # a copy of one number, pageable
    # values made on the host
    "tensor of a number": (1, lambda t: torch.tensor(3.14, device=t.device)),
    "tensor of a list": (1, lambda t: torch.tensor([1, 2], device=t.device)),
    "as_tensor of a number": (1, lambda t: torch.as_tensor(3.14, device=t.device)),
    "new_tensor": (1, lambda t: t.x.new_tensor([1.0])),
    "from_numpy": (1, lambda t: torch.from_numpy(np.ones(3)).to(t.device)),
    # copies
    "pageable to the device": (1, lambda t: t.big.to(t.device)),
    "pinned to the device": (1, lambda t: t.pinned.to(t.device)),
    "pageable, asked not to block": (1, lambda t: t.big.to(t.device, non_blocking=True)),
    "copy_ in": (1, lambda t: t.big_x.copy_(t.pinned)),
    "copy_ out": (1, lambda t: t.pinned.copy_(t.big_x)),
    "copy_ out to pageable, asked not to block": (1, lambda t: t.big.copy_(t.big_x, non_blocking=True)),
    "pinned and converted, asked not to block": (1, lambda t: t.pinned.to(t.device, torch.float64, non_blocking=True)),
    # explicit
    "synchronize": (1, lambda t: torch.vgpu.synchronize()),
    "synchronize the accelerator": (1, lambda t: torch.accelerator.synchronize()),
    "synchronize a stream": (1, lambda t: torch.vgpu.current_stream().synchronize()),
    # hidden in libraries
    "clip_grad_norm_ that refuses nan": (
        1, lambda t: torch.nn.utils.clip_grad_norm_(with_gradient(t), 1.0, error_if_nonfinite=True)),
    "GradScaler.step": (1, lambda t: scaler_step(t)),
    "linalg.inv checks": (1, lambda t: torch.linalg.inv(torch.eye(3, device=t.device))),
}

NO_WAITS = {
    "x[mask] = 1.0": lambda t: assign(t.x, t.mask, 1.0),
    "x[mask] = cpu number": lambda t: assign(t.x, t.mask, torch.tensor(1.0)),
    "x[:, mask] = 1": lambda t: assign(t.x, (slice(None), t.x[0] > 1), 1),
    "x[0] = 1.0": lambda t: assign(t.x, 0, 1.0),
    "x[..., 0] = 1": lambda t: assign(t.x, (..., 0), 1),
    "x[index] = device values": lambda t: assign(t.x, t.index, t.x.clone()),
    "masked_fill": lambda t: t.x.masked_fill(t.mask, 1.0),
    "x[index]": lambda t: t.x[t.index],
    "x[1, :2]": lambda t: t.x[1, :2],
    "where with three arguments": lambda t: torch.where(t.mask, 0.0, t.x),
    "a cpu number as operand": lambda t: t.x * torch.tensor(2.0),
    "a python number as operand": lambda t: t.x + 1,
    "full": lambda t: torch.full((3,), 3.14, device=t.device),
    "zeros, ones": lambda t: (torch.zeros(3, device=t.device), torch.ones_like(t.x)),
    "arange": lambda t: torch.arange(9, device=t.device),
    "fill_ with a device number": lambda t: t.x.fill_(t.number),
    "repeat_interleave with output_size": lambda t: torch.repeat_interleave(t.x, t.labels, dim=0, output_size=1),
    "repeat_interleave by a number": lambda t: torch.repeat_interleave(t.x, 2, dim=0),
    "nonzero_static": lambda t: torch.nonzero_static(t.x, size=4),
    "count_nonzero": lambda t: torch.count_nonzero(t.x),
    "one_hot with classes": lambda t: F.one_hot(t.labels, 3),
    "histc with limits": lambda t: torch.histc(t.x, bins=4, min=0, max=6),
    "sort, topk, cumsum": lambda t: (t.x.sort(), t.x.topk(2), t.x.cumsum(0)),
    "cross_entropy": lambda t: F.cross_entropy(t.x, t.labels, ignore_index=1),
    "pinned, asked not to block": lambda t: t.pinned.to(t.device, non_blocking=True),
    "pinned copy_, asked not to block": lambda t: t.big_x.copy_(t.pinned, non_blocking=True),
    "copy_ out to pinned, asked not to block": lambda t: t.pinned.copy_(t.big_x, non_blocking=True),
    "to cpu, asked not to block": lambda t: t.big_x.to("cpu", non_blocking=True),  # PyTorch pins the result
    "small pageable, asked not to block": lambda t: t.host.to(t.device, non_blocking=True),
    "to the same device": lambda t: t.x.to(t.device),
    "to another dtype": lambda t: t.x.to(torch.float64),
    "shape, dtype, len": lambda t: (t.x.shape, t.x.dtype, len(t.x), t.x.numel()),
    "equal of other shapes": lambda t: torch.equal(t.x, t.x[0]),
    "clip_grad_norm_": lambda t: torch.nn.utils.clip_grad_norm_(with_gradient(t), 1.0),
    "Adam": lambda t: torch.optim.Adam(with_gradient(t)).step(),
    "events": lambda t: torch.vgpu.Event().record(),
    "a stream waits for another": lambda t: torch.vgpu.Stream().wait_stream(torch.vgpu.current_stream()),
}


def with_gradient(t):
    weight = torch.nn.Parameter(t.x.clone())
    weight.grad = t.x.clone()
    return [weight]


def scaler_step(t):
    weights = with_gradient(t)
    scaler = torch.amp.GradScaler("vgpu")
    scaler._lazy_init_scale_growth_tracker(t.device)
    scaler.step(torch.optim.SGD(weights, lr=0.1))


@pytest.fixture(scope="module")
def things():
    return lambda: Things(vgpu.enable("a10g"))


@pytest.mark.parametrize("idiom", WAITS)
def test_waits(idiom, things, waits):
    count, use = WAITS[idiom]
    prepared = things()
    with waits() as found:
        use(prepared)
    assert len(found) == count, [(w.name, w.op) for w in found]


@pytest.mark.parametrize("idiom", NO_WAITS)
def test_does_not_wait(idiom, things, waits):
    prepared = things()
    with waits() as found:
        NO_WAITS[idiom](prepared)
    assert not found, [(w.name, w.op) for w in found]


@pytest.mark.parametrize("idiom", ["nonzero", "x[mask]", "unique", "unique of rows", "bincount", "masked_select", "item",
                                   "equal", "allclose", "repeat_interleave", "x[mask] = device number", "cpu",
                                   "tensor of a number", "x[cpu index]"])
def test_waits_are_the_same_without_values(idiom, waits):
    count, use = WAITS[idiom]
    with vgpu.shape_only():
        prepared = Things(vgpu.enable())
        with waits() as found:
            use(prepared)
    assert len(found) == count


def test_a_wait_names_its_operator_and_lasts_as_long_as_the_stream_is_busy(device, waits):
    with vgpu.shape_only():
        x = torch.empty(10_000, 10_000, device=device)
        busy = x @ x
        ready = vgpu.timeline().device_ready_ns
        with waits() as found:
            busy.nonzero()
    wait, = found
    assert wait.op == "aten::nonzero"
    assert wait.wait_ns > ready - vgpu.timeline().host_ns
    assert wait.wait_ns > 10e6


def test_a_mask_waits_again_in_the_backward_pass(device, waits):
    """What is kept for backward is the mask, not the positions: they are counted a second time."""
    x = torch.arange(6.0, device=device, requires_grad=True)
    y = x[x > 2].sum()
    with waits() as found:
        y.backward()
    assert [w.op for w in found] == ["aten::nonzero"]
    assert "test_syncs.py" in found[0].location
    assert x.grad.tolist() == [0, 0, 0, 1, 1, 1]
