"""For which graphs feature maps lie in channels-last order, and what that makes of their tensors."""

import torch

from gapless.vgpu.compiling import channels_last
from gapless.vgpu.compiling.lowering import Call, Form


def form(buffer, *shape, strides=None):
    return Form(buffer, shape, strides or torch.empty(shape, device="meta").stride(), 0, torch.float32, True)


def convolution(x, weight, out, groups=1):
    return Call("convolution", (x, weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), groups), out, (out,), ("convolution",))


X, W, OUT = form(0, 2, 64, 8, 8), form(1, 128, 64, 3, 3), form(2, 2, 128, 8, 8)
CALL = convolution(X, W, OUT)
RELU = Call("relu", (OUT,), form(3, 2, 128, 8, 8), (form(3, 2, 128, 8, 8),), ("pointwise",))


def test_which_graphs():
    assert channels_last.wanted([CALL, RELU], training=True) and channels_last.wanted([CALL, RELU], training=False)
    assert not channels_last.wanted([RELU], training=False)  # no convolution
    assert not channels_last.wanted([CALL] + [RELU] * 300, training=False)  # few beside the rest
    grouped = convolution(X, form(1, 128, 32, 3, 3), OUT, groups=2)
    assert not channels_last.wanted([grouped], training=False) and not channels_last.wanted([CALL, grouped], training=True)
    small = convolution(X, form(1, 64, 64, 3, 3), form(2, 2, 64, 8, 8))
    assert channels_last.wanted([small], training=False) and not channels_last.wanted([small], training=True)


def test_maps_lie_so_and_the_programs_own_tensors_are_copied():
    first, relu = channels_last.laid_out([CALL, RELU])
    assert first.written[0].strides == relu.args[0].strides == relu.written[0].strides == (8192, 1, 1024, 128)
    x, weight, _ = first.args[:3]
    assert x.copied and weight.copied and x.strides == (4096, 1, 512, 64)


def test_views_of_a_map():
    shape = 2, 128, 8, 8
    rows = form(2, 2, 64, 128, strides=(8192, 1, 64))  # flatten(2).mT
    assert channels_last.turned(rows, shape).strides == (8192, 128, 1)
