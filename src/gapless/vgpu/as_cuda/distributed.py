"""Several ranks: what ``DistributedDataParallel`` and process groups take a device for is this process's one card."""

from __future__ import annotations

import functools

import torch

from . import asking
from .asking import check, meant


def _card(place):
    """``place``, a number or a device, as the virtual GPU. Raises what CUDA does for a number that there is not."""
    if isinstance(place, int):
        check(place)
        return asking.numbering.place
    return meant(place)


def _wrapped(function):
    @functools.wraps(function)
    def call(self, module, device_ids=None, output_device=None, *args, **kwargs):
        device_ids = device_ids and [_card(place) for place in device_ids]
        output_device = None if output_device is None else _card(output_device)
        return function(self, module, device_ids, output_device, *args, **kwargs)

    return call


def _begun(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        if kwargs.get("device_id") is not None:
            kwargs["device_id"] = _card(kwargs["device_id"])
        return function(*args, **kwargs)

    return call


def _met(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        if kwargs.get("device_ids"):
            kwargs["device_ids"] = [_card(place).index for place in kwargs["device_ids"]]
        return function(*args, **kwargs)

    return call


def _meshed(function):
    @functools.wraps(function)
    def init(self, device_type: str, *args, **kwargs):
        function(self, asking.numbering.place.type if device_type == "cuda" else device_type, *args, **kwargs)

    return init


def install(replaced) -> None:
    """Translate from now on."""
    if not torch.distributed.is_available():
        return
    replaced.put(torch.nn.parallel.DistributedDataParallel, "__init__",
                 _wrapped(torch.nn.parallel.DistributedDataParallel.__init__))
    mesh = torch.distributed.device_mesh.DeviceMesh
    replaced.put(mesh, "__init__", _meshed(mesh.__init__))
    for owner in (torch.distributed, torch.distributed.distributed_c10d):
        replaced.put(owner, "init_process_group", _begun(owner.init_process_group))
        replaced.put(owner, "barrier", _met(owner.barrier))
