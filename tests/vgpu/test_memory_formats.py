"""Which memory format comes out, as on CUDA, and which kernels turn images from one into the other."""

import itertools
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gapless import profile, vgpu
from gapless.vgpu.hardware.times.layout import suggests_channels_last

LAST = torch.channels_last
SIZE = (2, 8, 6, 6)
MODES = {"exact": nullcontext, "shape only": vgpu.shape_only}

# What keeps channels-last order, and what loses it on CUDA (ATen: TensorIterator, the operators' own sources).
KEEPS = {
    "relu": F.relu, "gelu": F.gelu, "add": lambda x: x + x, "a number": lambda x: 2 * x, "to half": lambda x: x.half(),
    "dropout": lambda x: F.dropout(x, 0.5), "clone": torch.clone, "cat": lambda x: torch.cat([x, x], 1),
    "max pool": lambda x: F.max_pool2d(x, 2), "average pool": lambda x: F.avg_pool2d(x, 2),
    "adaptive pool": lambda x: F.adaptive_avg_pool2d(x, 2), "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "plus contiguous": lambda x: x + torch.ones(SIZE, device=x.device),
}
LOSES = {
    "contiguous": torch.Tensor.contiguous, "flatten and back": lambda x: x.flatten(1).view(SIZE),
    "contiguous plus it": lambda x: torch.ones(SIZE, device=x.device) + x, "group norm": lambda x: F.group_norm(x, 2),
    "layer norm": lambda x: F.layer_norm(x, SIZE[1:]), "roll": lambda x: x.roll(1, 3), "softmax": lambda x: x.softmax(1),
    "pixel shuffle": lambda x: F.pixel_shuffle(x, 2), "reflection": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
}


@pytest.fixture
def device():
    found = vgpu.enable("a10g")
    vgpu.timeline().reset()
    vgpu.forget_plans()
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*KEEPS, *LOSES])
def test_what_keeps_the_format_and_what_loses_it(device, name, mode):
    with MODES[mode]():
        x = torch.randn(SIZE, device=device).contiguous(memory_format=LAST)
        assert suggests_channels_last({**KEEPS, **LOSES}[name](x)) == (name in KEEPS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("x_last, weight_last", list(itertools.product((False, True), repeat=2)))
def test_a_convolution_takes_the_format_of_its_images_or_of_its_weight(device, x_last, weight_last, mode):
    with MODES[mode]():
        x, weight = torch.randn(SIZE, device=device), torch.randn(4, 8, 3, 3, device=device)
        x = (x.contiguous(memory_format=LAST) if x_last else x).requires_grad_()
        weight = (weight.contiguous(memory_format=LAST) if weight_last else weight).requires_grad_()
        y = F.conv2d(x, weight)
        found = [suggests_channels_last(each) for each in (y, *torch.autograd.grad(y.sum(), (x, weight)))]
    assert found == [x_last or weight_last] * 3


# -- kernels ----------------------------------------------------------------------------------------


def names(step, device) -> list[str]:
    """Of a step's kernels, those that change the format."""
    with vgpu.shape_only():
        call = step()
        call()
        trace = profile(call, steps=1, warmup=0, device=device)
    return [event["name"] for event in trace.events if event.get("cat") == "kernel" and any(
        word in event["name"] for word in ("nchw", "nhwc", "memory format", "(clone)"))]


def network(device, images, weights, between=None, autocast=True):
    def make():
        model = nn.Sequential(nn.Conv2d(8, 16, 3, bias=False), between or nn.Identity(), nn.Conv2d(16, 16, 3, bias=False)).to(device)
        model = model.to(memory_format=weights)
        x = torch.empty(32, 8, 32, 32, device=device).contiguous(memory_format=images)

        def step():
            with torch.autocast("vgpu", torch.float16, enabled=autocast):
                return model(x)

        return step

    return make


class Flattens(nn.Module):
    def forward(self, x):
        return x.flatten(2).contiguous().view(x.shape)


def test_in_contiguous_order_each_convolution_turns_its_images_and_back(device):
    plain = torch.contiguous_format
    assert names(network(device, plain, plain), device) == 2 * ["nchwToNhwcKernel<float16>", "nhwcToNchwKernel<float16>"]


def test_all_in_channels_last_order_nothing_is_turned(device):
    assert names(network(device, LAST, LAST), device) == []


def test_images_in_another_format_than_the_weights_are_copied_at_each_step(device):
    assert names(network(device, torch.contiguous_format, LAST), device) == ["elementwise_kernel(memory format)"]


def test_so_are_the_weights_where_the_images_are_in_channels_last_order(device):
    assert names(network(device, LAST, torch.contiguous_format), device) == 2 * ["elementwise_kernel(memory format)"]


def test_a_layer_that_loses_the_format_shows_as_two_copies(device):
    found = names(network(device, LAST, LAST, Flattens()), device)
    assert found == ["pointwise_kernel(clone)", "elementwise_kernel(memory format)"]


def test_in_float32_channels_last_order_turns_them(device):
    vgpu.enable("v100")
    try:
        assert names(network(device, LAST, LAST, autocast=False), device) == 2 * [
            "nhwcToNchwKernel<float32>", "nchwToNhwcKernel<float32>"]
        vgpu.forget_plans()
        assert names(network(device, *2 * [torch.contiguous_format], autocast=False), device) == []
    finally:
        vgpu.enable("a10g")


def test_resnet50_gains_by_the_format_only_on_tensor_cores(device):
    # Published: torchvision's ResNet-50, batch 128, V100 SXM2, training: 342 and 413 ms in float32, 152 and 111 in mixed
    # precision, contiguous and channels-last.
    torchvision = pytest.importorskip("torchvision")
    vgpu.enable("v100")
    found = {}
    try:
        with vgpu.shape_only(), torch.device(device):
            for mixed, form in itertools.product((False, True), (torch.contiguous_format, LAST)):
                model = torchvision.models.resnet50().to(memory_format=form)
                x = torch.empty(128, 3, 224, 224).contiguous(memory_format=form)

                def step(model=model, x=x, mixed=mixed):
                    with torch.autocast("vgpu", torch.float16, enabled=mixed):
                        loss = model(x).float().logsumexp(1).mean()
                    loss.backward()

                step()
                torch.vgpu.synchronize()
                start = vgpu.timeline().host_ns
                step()
                torch.vgpu.synchronize()
                found[mixed, form] = (vgpu.timeline().host_ns - start) / 1e6
    finally:
        vgpu.enable("a10g")
    assert list(found.values()) == pytest.approx([342, 413, 152, 111], rel=0.12)
