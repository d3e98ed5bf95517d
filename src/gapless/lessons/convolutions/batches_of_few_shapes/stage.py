"""Lesson 05: how ``batches_of_few_shapes`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from ....course.plain import OVERWRITTEN, Unusable
from ....vgpu.core.tuning import autotuned


def ask_batches(function, given, device):
    """The batches; where they are timed, also a training step of a small network over each, convolutions autotuned. With
    ``again`` the function is called once more, and must not write into the first batches."""
    images, options = given.inputs["images"], given.options
    if options["again"]:  # what is written into the batches must not reach the images, where a batch is a view of one
        images = [image.clone() for image in images]
    network = small_network(images[0].shape[0] if images else 1, options["seed"], device)
    yield
    with autotuned():
        batches = _checked(function(list(images), options["batch_size"], options["max_shapes"]))
        for batch, mask, _ in batches:
            if options["trains"]:
                (network(batch.float()) * mask.unsqueeze(1)).square().mean().backward()
    yield
    found = [{"shape": list(batch.shape), "dtype": str(batch.dtype), "images": batch.flatten(),
              "mask_shape": list(mask.shape), "mask": mask.flatten(), "indices": indices}
             for batch, mask, indices in batches]
    if options["again"]:
        for each in found:
            each.update(images=each["images"].clone(), mask=each["mask"].clone())
        _stay(batches, lambda: function(list(images), options["batch_size"], options["max_shapes"]))
    return found


def _stay(batches: list[tuple], again: Callable[[], object]) -> None:
    """Raises Unusable where ``again``, another call, writes into the batches of the first. Their caller has written into
    them meanwhile, so that this is seen whatever it writes."""
    tensors = [tensor for batch in batches for tensor in batch[:2] if 0 not in tensor.stride()]  # else elements share memory
    for tensor in tensors:
        tensor.copy_(tensor == 0)
    before = [tensor.clone() for tensor in tensors]
    again()
    if not all(map(torch.equal, tensors, before)):
        raise Unusable(OVERWRITTEN)


def _checked(batches) -> list[tuple[torch.Tensor, torch.Tensor, list[int]]]:
    """Raises Unusable where these are no batches of the agreed form."""
    if not isinstance(batches, (list, tuple)):
        raise Unusable(f"it returned a {type(batches).__name__}, not a list of batches.")
    found = []
    for number, batch in enumerate(batches):
        if not isinstance(batch, (list, tuple)) or len(batch) != 3:
            raise Unusable(f"batch {number} is not a triple (images B×C×H×W, mask B×H×W, list of indices).")
        images, mask, indices = batch
        if not isinstance(images, torch.Tensor) or images.dim() != 4:
            raise Unusable(f"the images of batch {number} are not a tensor B×C×H×W.")
        if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool or mask.dim() != 3:
            raise Unusable(f"the mask of batch {number} is not a tensor B×H×W of torch.bool.")
        if isinstance(indices, torch.Tensor):
            raise Unusable(f"the indices of batch {number} are a tensor. Return a list of Python integers, which the host "
                           "reads without a wait.")
        if not all(type(index) is int for index in indices):
            raise Unusable(f"the indices of batch {number} are not all integers (int).")
        found.append((images, mask, list(indices)))
    return found


def small_network(channels: int, seed: int, device: torch.device) -> nn.Module:
    """Three convolutions that keep the images' size, their weights drawn from ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
                               nn.Conv2d(8, 1, 3, padding=1))
    return layers.to(device)
