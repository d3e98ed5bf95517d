"""Lesson 05: how ``tensor_core_sizes`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

from ....course.plain import Unusable

SIZES, DTYPES, MODE, NORMS, WIDTH, EVALUATED, LATER, STEPS, SAME = (
    "sizes of the layers", "dtypes of parameters and statistics", "in training mode", "modes of the norms",
    "columns of the outputs", "outputs in evaluation", "outputs in evaluation, after the steps", "losses of training steps",
    "outputs to nine digits")
AS_BEFORE = "as without padding"
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


STRIDED, OTHER_NORMS, NO_WEIGHTS, BETWEEN, POOLED, FROZEN = (
    "convolutions with stride, dilation and circular padding", "norms with another eps and momentum, or plain averages",
    "norms without weights, or without statistics too, linear layers without biases", "norms between linear layers",
    "max pooling and Tanh, in float64", "frozen layers, and layers with a frozen part")
# Of each norm, in turn.
_OF_NORMS: dict[str, tuple[dict, ...]] = {
    OTHER_NORMS: ({"eps": 0.01, "momentum": 0.3}, {"momentum": None}),
    NO_WEIGHTS: ({"affine": False}, {"affine": False, "track_running_stats": False})}
_BATCHES_BEFORE = 7  # that a norm has seen, which counts where it takes plain averages


def odd_network(channels: list[int], hidden: list[int], classes: int, bias: bool, seed: int, kind: str = ""
                ) -> nn.Sequential:
    """3×3 convolutions of these channels, each with a norm and a ReLU, then linear layers; ``kind``: what is different. On
    the CPU; the random state is left as it is."""
    of_convolution: dict = {"padding": 1}
    if kind == STRIDED:
        of_convolution = {"stride": 2, "padding": 2, "dilation": 2, "padding_mode": "circular"}
    of_norms = _OF_NORMS.get(kind, ({},))
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        width = 3
        for place, count in enumerate(channels):
            norm = nn.BatchNorm2d(count, **of_norms[place % len(of_norms)])
            if norm.affine:
                nn.init.normal_(norm.weight, 1.0, 0.2)
                nn.init.normal_(norm.bias, 0.0, 0.2)
            if norm.track_running_stats:
                norm.running_mean.normal_(0.0, 0.3)
                norm.running_var.uniform_(0.5, 1.5)
                norm.num_batches_tracked.fill_(_BATCHES_BEFORE)
            layers += [nn.Conv2d(width, count, 3, bias=bias, **of_convolution), norm,
                       *([nn.MaxPool2d(2), nn.Tanh()] if kind == POOLED else [nn.ReLU()])]
            width = count
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        for count in hidden:
            layers += [nn.Linear(width, count, bias=kind != NO_WEIGHTS),
                       *([nn.BatchNorm1d(count)] if kind == BETWEEN else []), nn.ReLU()]
            width = count
        layers.append(nn.Linear(width, classes, bias=kind != NO_WEIGHTS))
    network = nn.Sequential(*layers)
    return network.double() if kind == POOLED else network


def freeze(network: nn.Sequential) -> None:
    """A convolution and its norm, which goes into evaluation mode, a linear layer's weight, and another one's bias."""
    for layer in network[:2]:
        layer.requires_grad_(False).eval()
    first, second = (layer for layer in network if isinstance(layer, nn.Linear))
    first.weight.requires_grad_(False)
    second.bias.requires_grad_(False)


def ask_tensor_core_sizes(function, given, device):
    """The sizes of the padded network, its outputs in both modes, and what some training steps make of it. Where it is
    timed it is padded on the host; timed is a forward pass with the loss, and with ``backward`` a backward pass, in mixed
    precision and channels-last order. There the loss is compared."""
    options = given.options
    images, labels = given.inputs["images"], given.inputs["labels"]
    model = odd_network(**options["network"]).train(options["training"])
    if options["network"].get("kind") == FROZEN:
        freeze(model)
    if options["timed"]:
        padded = _checked(function(model)).to(device, memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
        yield
        with torch.set_grad_enabled(options["backward"]), torch.autocast(device.type, torch.float16):
            outputs = padded(images)
            loss = F.cross_entropy(outputs, labels)
        if options["backward"]:
            loss.backward()
        yield
        return _form(padded) | {WIDTH: outputs.shape[1], STEPS: [loss.detach()]}
    before = copy.deepcopy(model.to(device))
    yield
    padded = _checked(function(model))
    yield
    elsewhere = [name for name, tensor in padded.state_dict().items() if tensor.device != images.device]
    if elsewhere:
        raise Unusable(f"`{elsewhere[0]}` of the padded network is on another device than the network was. A new layer is "
                       "made on the CPU, unless it gets `device=`.")
    seen = _form(padded)
    # In float64, where hardly anything is rounded, a small number in place of a 0 shows.
    found, right = (_trained(each.double(), images.double(), labels) for each in (padded, before))
    same = found[WIDTH] != right[WIDTH] or torch.allclose(found[LATER], right[LATER], 1e-6, 1e-9)
    return seen | found | {SAME: AS_BEFORE if same else "others"}


def _trained(padded: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> dict:
    """Its outputs before some training steps and after them, and the losses of these."""
    modes = {part: part.training for part in padded.modules()}
    padded.eval()
    with torch.no_grad():
        outputs = padded(images)
    if not isinstance(outputs, torch.Tensor) or outputs.dim() != 2:
        raise Unusable("the padded network does not return a tensor of images × classes.")
    for part, training in modes.items():  # a frozen norm stays in evaluation mode
        part.training = training
    optimizer = torch.optim.SGD(padded.parameters(), lr=0.2, momentum=0.9, weight_decay=0.01)
    losses = []
    for _ in range(2):
        loss = F.cross_entropy(padded(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    padded.eval()
    with torch.no_grad():
        return {WIDTH: outputs.shape[1], EVALUATED: outputs, STEPS: losses, LATER: padded(images)}


def _checked(padded) -> nn.Module:
    """Raises Unusable where it is no network."""
    if not isinstance(padded, nn.Module):
        raise Unusable(f"it returned a {type(padded).__name__}, not a network that can be called and trained: is there a "
                       "`return`?")
    return padded


def _form(padded: nn.Module) -> dict:
    """Sizes, dtypes and modes."""
    tensors = [*padded.parameters(), *padded.buffers()]
    return {SIZES: [_sizes(layer) for layer in padded.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))],
            DTYPES: sorted({str(each.dtype).removeprefix("torch.") for each in tensors if each.is_floating_point()}),
            MODE: padded.training,
            NORMS: ["training" if layer.training else "evaluation" for layer in padded.modules()
                    if isinstance(layer, BATCH_NORMS)]}


def _sizes(layer: nn.Module) -> str:
    """Such as "3 → 24"."""
    return f"{layer.weight.shape[1]} → {layer.weight.shape[0]}"
