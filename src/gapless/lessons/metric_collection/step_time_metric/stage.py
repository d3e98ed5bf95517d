"""Lesson 03: how ``step_time_metric`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from ....course.notebooks.cells import describe_error
from ....course.plain import Unusable, as_plain
from ..stage import quietly, torchmetrics


@quietly
def ask_step_time(function, given, device):
    """The mean of step times: after a reset, of a copy, saved and loaded, moved, and in a process group."""
    times = given.options["times"]
    metric = function(device)
    if not isinstance(metric, torchmetrics().Metric):
        raise Unusable(f"it returned a {type(metric).__name__}; a metric of TorchMetrics is wanted, so that it can "
                       "be kept, saved and reset like the others.")

    def update(which) -> None:
        for time in times:
            which.update(time)

    yield
    update(metric)
    yield
    found = {"mean": metric.compute()}
    if given.options.get("only_timed"):
        return found
    metric.update(2 * times[0])
    found["mean after another update"] = metric.compute()
    other = function(device)
    other.update(3 * times[0])
    found["mean beside a second metric"] = metric.compute()
    copy = metric.clone()
    copy.update(5 * times[0])
    found["means of the metric and of a clone, updated once more"] = [metric.compute(), copy.compute()]
    saved, loaded = function(device), function(device)
    for each in (saved, loaded):
        each.persistent(True)
    update(saved)
    loaded.load_state_dict(saved.state_dict(), strict=False)
    try:
        found["mean of a new metric, loaded with load_state_dict"] = loaded.compute()
    except Exception as error:
        raise Unusable(f"a new metric that has loaded its `state_dict` raised {describe_error(error, 'step_time_metric')}. "
                       "What is saved, moved and gathered is the metric's state: what `add_state` has added, no list or "
                       "number of your own.") from error
    found["mean after .to(\"cpu\")"] = metric.clone().to("cpu").compute()
    for name, place in (("device", device.type), ('"cpu"', "cpu")):
        moved = saved.clone().to(place)
        found[f"state is there after .to({name})"] = all(where.type == place for where in _places(moved))
    called = function(device)
    found["values of calling it twice"] = [called(times[-1]), called(times[0])]
    found["mean after calling it twice"] = called.compute()
    metric.reset()
    update(metric)
    found["mean after a reset"] = metric.compute()
    metric.reset()
    with device_group(device):
        try:
            update(metric)
            found["mean under DDP"] = metric.compute()
        except RuntimeError as error:
            if "No backend type" not in str(error):
                raise
            raise Unusable(
                f"its `compute` raised \"{error}\" under DDP. `compute` gathers the metric's state from all processes, and "
                "a process group for GPUs (NCCL's) cannot move a CPU tensor. Either each process keeps its own mean (an "
                "option of every metric), or the state lives on the GPU: then see that the update does not wait.") from error
    found["mean of two processes"] = _of_two_processes(function, device, metric, times, found["mean"])
    return found


def _places(metric) -> list[torch.device]:
    """Where the parts of a metric's state are."""
    parts = [getattr(metric, name) for name in metric._defaults]
    return [tensor.device for part in parts for tensor in (part if isinstance(part, list) else [part])]


def _of_two_processes(function, device, metric, times: list[float], own_mean):
    """What ``metric`` computes beside another process with other times. The mean of all processes is right too, and is
    then told as its own."""
    metric.reset()
    others, both = [3 * time for time in times] + [5 * times[-1]], function(device)
    if metric.dist_sync_fn is None:
        another, states = function(device), []
        for time in others:
            another.update(time)

        def gathered(state, group=None) -> list:
            states.append(state)
            return [state]

        another.dist_sync_fn, another.distributed_available_fn = gathered, lambda: True
        another.compute()
        theirs = iter(states)
        metric.dist_sync_fn, metric.distributed_available_fn = (
            lambda state, group=None: [state, next(theirs)]), lambda: True
    for time in times:
        metric.update(time)
    for time in times + others:
        both.update(time)
    mean, of_all = metric.compute(), both.compute()
    plain = as_plain(mean)
    return own_mean if isinstance(plain, float) and math.isclose(plain, of_all, rel_tol=1e-5) else mean


BACKENDS = {"cuda": "cuda:nccl", "vgpu": "vgpu:gloo", "cpu": "cpu:gloo"}


@contextmanager
def device_group(device: torch.device) -> Iterator[None]:
    """Inside, this process is a process group of its own, which serves ``device`` and no other, as NCCL serves CUDA and not
    the CPU. No network, no second process.

    Raises RuntimeError where a process group is open already.
    """
    if dist.is_initialized():
        raise RuntimeError("a process group is open in this Python process: call torch.distributed.destroy_process_group()")
    dist.init_process_group(BACKENDS[device.type], store=dist.HashStore(), rank=0, world_size=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # barrier() remarks which device it takes
            yield
    finally:
        dist.destroy_process_group()
