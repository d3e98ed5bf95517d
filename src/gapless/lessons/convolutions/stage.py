"""Lesson 05: what an exercise's cell finds defined, and how each exercise's function is called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ...course.plain import Unusable
from ...vgpu.core.tuning import autotuned
from .format_model import make_mixing_network
from .norm_models import make_network

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "CONVOLUTIONS": CONVOLUTIONS}


_LEARNING_RATE = 0.1


def ask_without_bias(function, given, device):
    """What the model computes in both modes, before a step and after it; its gradients, and the parameters that it has."""
    images = given.inputs["images"]
    model = make_network(given.options["network"], given.options["seed"], device, images.dtype)
    model = function(model, images)
    if not isinstance(model, nn.Module):
        raise Unusable(f"it returned a {type(model).__name__}; the model is wanted: is there a `return`?")
    found = {"parameters": {name: list(parameter.shape) for name, parameter in model.named_parameters()},
             "in training mode": model.training}
    model.eval()
    with torch.no_grad():
        found["outputs in evaluation"] = _joined(model(images))
    model.train()
    model.zero_grad()
    yield
    outputs = _joined(model(images))
    outputs.square().mean().backward()
    yield
    found["outputs in training"] = outputs.detach()
    found["gradients"] = {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters()
                          if parameter.grad is not None}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=_LEARNING_RATE)
        found["outputs in training after a step"] = _joined(model(images))
        model.eval()
        found["outputs in evaluation after a step"] = _joined(model(images))
    return found


def _joined(outputs) -> torch.Tensor:
    """All outputs of a model, in a row."""
    return torch.cat([each.flatten() for each in (outputs if isinstance(outputs, tuple) else (outputs,))])


def ask_batches(function, given, device):
    """The batches; where they are timed, also a training step of a small network over each, convolutions autotuned."""
    images, options = given.inputs["images"], given.options
    network = small_network(images[0].shape[0] if images else 1, options["seed"], device)
    yield
    with autotuned():
        batches = _checked(function(list(images), options["batch_size"], options["max_shapes"]))
        for batch, mask, _ in batches:
            if options["trains"]:
                (network(batch.float()) * mask.unsqueeze(1)).square().mean().backward()
    yield
    return [{"shape": list(batch.shape), "images": batch.flatten(), "mask_shape": list(mask.shape), "mask": mask.flatten(),
             "indices": indices} for batch, mask, indices in batches]


def _checked(batches) -> list[tuple[torch.Tensor, torch.Tensor, list[int]]]:
    """Raises Unusable where these are no batches of the agreed form."""
    if not isinstance(batches, (list, tuple)):
        raise Unusable(f"it returned a {type(batches).__name__}; a list of batches is wanted.")
    found = []
    for number, batch in enumerate(batches):
        if not isinstance(batch, (list, tuple)) or len(batch) != 3:
            raise Unusable(f"batch {number} is no triple: (images B×C×H×W, mask B×H×W, list of indices) is wanted.")
        images, mask, indices = batch
        if not isinstance(images, torch.Tensor) or images.dim() != 4:
            raise Unusable(f"the images of batch {number} are no tensor of B×C×H×W.")
        if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool or mask.dim() != 3:
            raise Unusable(f"the mask of batch {number} is no tensor of B×H×W and torch.bool.")
        if isinstance(indices, torch.Tensor):
            raise Unusable(f"the indices of batch {number} are a tensor; a list of Python's whole numbers is wanted, which "
                           "the host reads without a wait.")
        if not all(type(index) is int for index in indices):
            raise Unusable(f"the indices of batch {number} are not all whole numbers (int).")
        found.append((images, mask, list(indices)))
    return found


def small_network(channels: int, seed: int, device: torch.device) -> nn.Module:
    """Three convolutions that keep the images' size, their weights drawn from ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
                               nn.Conv2d(8, 1, 3, padding=1))
    return layers.to(device)


def ask_channels_last(function, given, device):
    """What the model computes in mixed precision, its gradients, and what its norms have seen."""
    options = given.options
    images = given.inputs["images"].contiguous(memory_format=torch.channels_last)
    model = make_mixing_network(options["width"], options["seed"], device)
    forward = function(model)
    if not callable(forward) or forward is model:  # the model has no forward pass of its own
        raise Unusable(f"it returned a {type(forward).__name__}; the function `forward(images)` is wanted.")

    def outputs_of(images):
        with torch.autocast(device.type, torch.float16, enabled=options["mixed_precision"]):
            return forward(images)

    yield
    outputs = outputs_of(images)
    if not isinstance(outputs, torch.Tensor):
        raise Unusable(f"`forward` returned a {type(outputs).__name__}; a tensor of N×8 is wanted.")
    if options["backward"]:
        outputs.float().square().mean().backward()
    yield
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    found = {"outputs": outputs.detach(), "gradients": {
        name: None if gradient is None else gradient.flatten() for name, gradient in gradients.items()}}
    found["running means"] = {name: buffer for name, buffer in model.named_buffers() if name.endswith("running_mean")}
    model.eval()
    with torch.no_grad():
        found["outputs in evaluation"] = outputs_of(images[:, :, :-1])  # of another height
    return found
