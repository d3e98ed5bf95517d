"""A function run as a compiled graph, and the kernels that it should have."""

import math

import torch

from gapless.vgpu.compiling import regions
from gapless.vgpu.hardware.cards.cardfile import find_card
from gapless.vgpu.hardware.kernels.fusion import Fused

COUNT = 1 << 18
BYTES = 4 * COUNT


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def compiled(function, *args, whole=False):
    with regions.running("test", whole) as region:
        return region.returns(function(*args))


def names(kernels):
    return [kernel.name for kernel in kernels]


def lasts_ns(kind, nbytes, operations):
    """What such a kernel should last."""
    card = find_card("a10g")
    start_s, busy_s = Fused(kind, nbytes, operations).start_and_busy_s(card, "float32")
    return max(card.kernel_floor_ns, round((start_s + busy_s) * 1e9))


def on_device(*shapes, grad=True):
    return [torch.randn(shape, device="vgpu:0", requires_grad=grad) for shape in shapes]


def same_gradients(function, inputs, recorded):
    """Values and gradients, bit by bit; the kernels of the forward and the backward pass, compiled."""
    torch.manual_seed(0)
    wanted = function(*inputs)
    gradient = torch.randn_like(wanted)
    gradients = torch.autograd.grad(wanted, inputs, gradient)
    torch.manual_seed(0)
    found, forward = recorded(compiled, function, *inputs)
    given, backward = recorded(torch.autograd.grad, found, inputs, gradient)
    assert torch.equal(found.cpu(), wanted.cpu())
    assert all(torch.equal(one.cpu(), other.cpu()) for one, other in zip(given, gradients, strict=True))
    return forward, backward
