"""Formulas that PyTorch has twice, for tensor subclasses and for others: CUDA's values, gradients and waits."""

import pytest
import torch
import torch.nn.functional as F

from gapless import vgpu

PLAIN = [[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]]
ZERO = [[1.5, 0.0, 3.0], [0.5, 4.0, -1.0]]
ZEROS = [[0.0, 2.0, 0.0], [0.5, 0.0, -1.0]]

PRODUCTS = {
    "prod": lambda x: x.prod(), "prod along": lambda x: x.prod(1), "prod kept": lambda x: x.prod(-1, keepdim=True),
    "cumprod": lambda x: x.cumprod(1), "cumprod down": lambda x: x.cumprod(-2),
    "prod of doubles": lambda x: x.prod(dtype=torch.float64), "no dimension": lambda x: x[0, 0].prod(), "one": lambda x: x[:, :1].prod(1),
}
# Operator → waits in its backward pass by how many zeros there are: none, some.
WAITS = {"prod": (1, 1), "prod along": (1, 1), "prod kept": (1, 1), "cumprod": (1, 3), "cumprod down": (1, 3),
         "prod of doubles": (1, 1), "no dimension": (0, 0), "one": (1, 1)}


@pytest.mark.parametrize("values", [PLAIN, ZERO, ZEROS], ids=["plain", "zero", "zeros"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(device, waits, name, values):
    gradients = []
    for where in ("cpu", device):
        x = torch.tensor(values).to(where).requires_grad_()
        y = PRODUCTS[name](x)
        seed = torch.arange(1.0, 1 + y.numel()).reshape(y.shape).to(where, y.dtype)
        with waits() as found:
            y.backward(seed)
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1]
    assert len(found) == WAITS[name][values is not PLAIN]


@pytest.mark.parametrize("values", [PLAIN, ZERO, ZEROS], ids=["plain", "zero", "zeros"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_second_derivatives_of_products(device, name, values):
    found = []
    for where in ("cpu", device):
        x = torch.tensor(values).to(where).requires_grad_()
        first, = torch.autograd.grad(PRODUCTS[name](x).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), x)[0].cpu())
    torch.testing.assert_close(*found)


def test_products_elsewhere(device):
    """Under torch.func, in forward mode, without gradients and without values."""
    x = torch.tensor(PLAIN[0], device=device)
    assert torch.func.grad(torch.prod)(x).tolist() == pytest.approx([-6.0, 4.5, -3.0])
    assert torch.func.jvp(torch.prod, (x,), (torch.ones_like(x),))[1].item() == pytest.approx(-4.5)
    assert torch.vmap(torch.func.grad(torch.prod))(torch.tensor(PLAIN, device=device)).shape == (2, 3)
    with torch.inference_mode():
        assert x.prod().item() == -9.0
    with vgpu.shape_only():
        leaf = torch.ones(4, 3, device=device, requires_grad=True)
        (leaf.prod() + leaf.prod(1).sum() + leaf.cumprod(0).sum()).backward()
        assert leaf.grad.shape == (4, 3)


@pytest.mark.parametrize("in_place", [False, True])
def test_masked_fill_with_a_value_that_learns(device, waits, in_place):
    found = []
    for where in ("cpu", device):
        x, value = torch.tensor(PLAIN).to(where).requires_grad_(), torch.tensor(0.7).to(where).requires_grad_()
        mask = x.detach() > 1
        y = x.clone().masked_fill_(mask, value) if in_place else x.masked_fill(mask, value)
        with waits() as waited:
            (y * torch.arange(6.0, device=where).view(2, 3)).sum().backward()
        found.append((y.tolist(), x.grad.tolist(), value.grad.tolist()))
    assert found[0] == found[1]
    assert len(waited) == 1


def test_masked_fill_with_a_value_that_does_not(device, waits):
    x = torch.tensor(PLAIN, device=device, requires_grad=True)
    y = x.masked_fill(x.detach() > 1, torch.tensor(2.0))
    z = x.clone()
    version = z._version
    z.masked_fill_(x.detach() > 1, torch.tensor(2.0))
    assert z._version == version + 1
    with waits() as found:
        (y + z).sum().backward()
    assert not found and x.grad.tolist() == [[0.0, 2.0, 0.0], [2.0, 0.0, 2.0]]


@pytest.mark.parametrize("options, waits_expected", [
    ({"weight": True, "label_smoothing": 0.1}, 1), ({"label_smoothing": 0.1}, 0), ({"weight": True}, 0),
    ({"weight": True, "label_smoothing": 0.1, "reduction": "sum"}, 0), ({"weight": True, "label_smoothing": 0.1, "ignore_index": 1}, 1),
])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5)], ids=str)
def test_cross_entropy(device, waits, options, waits_expected, shape):
    found = []
    for where in ("cpu", device):
        scores = torch.arange(float(torch.Size(shape).numel())).reshape(shape).sin().to(where).requires_grad_()
        labels = torch.arange(scores.numel() // 3).remainder(3).reshape(shape[:1] + shape[2:]).to(where)
        weight = torch.tensor([1.0, 2.0, 0.5]).to(where) if options.get("weight") else None
        with waits() as waited:
            loss = F.cross_entropy(scores, labels, **{**options, "weight": weight})
        loss.backward()
        found.append((loss.item(), scores.grad.tolist()))
        with torch.inference_mode(), waits() as unrecorded:
            F.cross_entropy(scores, labels, **{**options, "weight": weight})
    assert found[0] == found[1]
    assert len(waited) == len(unrecorded) == waits_expected
