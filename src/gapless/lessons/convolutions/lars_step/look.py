"""Lesson 05: what the notebook shows for ``lars_step``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from ....course.exercise import full_size
from ....evidence.report import StepReport
from ....measure.device import origin_of
from ....measure.profile import profile, time_step
from . import cases


def lars_on_resnet18(lars_step: Callable, device: torch.device) -> str:
    """What a step of ``lars_step`` on ResNet-18's parameters takes, in words."""
    with full_size(device):
        given = cases.full_lars(device)()
        params = [nn.Parameter(weight) for weight in given.inputs["weights"]]
        for param, grad in zip(params, given.inputs["grads"]):
            param.grad = grad
        numbers = [given.options[name] for name in ("lr", "momentum", "weight_decay", "trust")]

        def step():
            lars_step(params, given.inputs["momenta"], *numbers)

        ms = time_step(step, device=device).true_ms
        report = StepReport.from_trace(profile(step, steps=2, device=device))
    return (f"a step takes {ms:.2f} ms ({origin_of(device)}): {report.syncs_per_step:g} waits, {report.kernels:g} "
            f"kernels, with which the device is busy for {report.device_busy_ms:.2f} ms")
