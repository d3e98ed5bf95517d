"""Lesson 05: how ``train_step`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ....course.plain import Unusable, same_objects

CLASSES = 8
MOMENTUM = 0.9
COMPARED = 200  # changes of a parameter, of more about as many
# What is seen of the steps, in the words of the answer.
COMPUTED, SCALED, BACKWARD, STEP, KEPT, PASSES, STEPS, LOSSES, SCALE, GROWTH, CHANGES = (
    "what the convolutions compute is in", "the loss that is scaled is in", "autocast in the backward pass",
    "autocast in the optimizer's step", "the weights are in", "forward passes", "steps of the optimizer", "losses",
    "scale", "good steps since the scale changed", "changes of the weights")


def make_network(channels: int, width: int) -> nn.Sequential:
    """A small VGG: two 3×3 convolutions, each with a norm, then a linear layer of ``width`` and one to the classes."""
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, width), nn.ReLU(), nn.Linear(width, CLASSES))


def ask_train_step(function, given, device):
    """What ``function`` makes of a network in some steps, one after the other, and what the network saw of them."""
    options = given.options
    dtype, count = getattr(torch, options["dtype"]), options["micro_batches"]
    model = _network(given.inputs["weights"], device)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    model[1].train(not options.get("evaluating"))  # as of a network that was trained before
    parameters, groups = list(model.parameters()), options.get("groups", 1)
    optimizer = torch.optim.SGD([{"params": parameters[place::groups]} for place in range(groups)], lr=options["lr"],
                                momentum=MOMENTUM)
    scaler = _Scaler(device.type, init_scale=options["scale"], growth_interval=options["growth_interval"],
                     enabled=dtype == torch.float16)
    seen = _watch(model, optimizer, scaler, device.type)
    batches = list(zip(given.inputs["x"], given.inputs["y"]))
    steps = [batches[start:start + count] for start in range(0, len(batches), count)]
    held = [list(step) for step in steps]
    if options.get("earlier_gradients"):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, options["scale"])
    yield
    losses = [function(model, optimizer, scaler, step, dtype, options["max_norm"]) for step in steps]
    yield
    for step, given_step in zip(steps, held):
        same_objects("batches", step, given_step)
    if any(isinstance(loss, torch.Tensor) and loss.requires_grad for loss in losses):
        raise Unusable("the loss that it returns still holds its graph, and a list of such losses all activations. Return "
                       "it without: `loss.detach()`.")
    return {**{name: _in_words(seen[name]) for name in (COMPUTED, BACKWARD, STEP, SCALED)},
            KEPT: _in_words([_short(parameter.dtype) for parameter in model.parameters()]),
            PASSES: len(seen[PASSES]), STEPS: len(seen[STEP]),
            **scaler.read(),
            LOSSES: losses,
            CHANGES: [(parameter.detach() - old).flatten()[::-(-old.numel() // COMPARED)]
                      for parameter, old in zip(model.parameters(), before)]}


class _Scaler(torch.amp.GradScaler):
    """Tells of the losses that it scales."""

    on_scale = None

    def scale(self, outputs):
        if self.on_scale is not None and isinstance(outputs, torch.Tensor):
            self.on_scale(outputs)
        return super().scale(outputs)

    def read(self) -> dict:
        """Its state as it lies on the device: to ask for numbers would be to wait."""
        return {SCALE: self._scale, GROWTH: self._growth_tracker} if self.is_enabled() else {SCALE: None, GROWTH: None}


def _network(weights: list[torch.Tensor], device: torch.device) -> nn.Sequential:
    with torch.device("meta"):
        model = make_network(len(weights[0]), weights[-2].shape[1])
    names = [name for name, _ in model.named_parameters()]
    model.to_empty(device=device)
    model.load_state_dict(dict(zip(names, weights, strict=True)), strict=False, assign=True)
    for layer in model:
        if isinstance(layer, nn.BatchNorm2d):
            layer.reset_running_stats()
    return model


def _watch(model: nn.Sequential, optimizer: torch.optim.Optimizer, scaler: _Scaler, device: str) -> dict[str, list[str]]:
    """What they see from now on, in the order in which it comes."""
    seen: dict[str, list[str]] = {name: [] for name in (COMPUTED, SCALED, BACKWARD, STEP, PASSES)}

    def switch() -> str:
        return "on" if torch.is_autocast_enabled(device) else "off"

    def after_convolution(layer, args, output):
        seen[COMPUTED].append(_short(output.dtype))

    def after_model(layer, args, output):
        seen[PASSES].append(_short(output.dtype))
        if output.requires_grad:
            output.register_hook(lambda grad: seen[BACKWARD].append(switch()))

    for layer in model:
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(after_convolution)
    model.register_forward_hook(after_model)
    optimizer.register_step_pre_hook(lambda *_: seen[STEP].append(switch()))
    if scaler.is_enabled():
        scaler.on_scale = lambda loss: seen[SCALED].append(_short(loss.dtype))
    return seen


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _in_words(seen: list[str]) -> str:
    """Such as "float16", or "float32, float16"; nothing seen is "none"."""
    return ", ".join(dict.fromkeys(seen)) or "none"
