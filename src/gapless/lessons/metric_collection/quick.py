"""Lesson 03: ten lines about metrics. Does the host wait there?"""

from __future__ import annotations

import torch

from ...course.quick import Quick, QuickQuestions
from .stage import CLASSES, torchmetrics

IMAGES = 64


def setup(device: torch.device) -> dict:
    """What the lines find defined."""
    package = torchmetrics()
    loss, labels = torch.ones((), device=device), torch.arange(IMAGES, device=device)
    mean = package.MeanMetric().to(device)
    mean.update(loss)
    return {"device": device, "loss": loss, "labels": labels, "ones": torch.ones(IMAGES, device=device),
            "mean": mean, "mean_on_the_cpu": package.MeanMetric(), "MeanMetric": package.MeanMetric, "CLASSES": CLASSES}


QUICK = QuickQuestions(
    question="Does the host wait at this line?",
    counts="waits",
    setup=setup,
    questions=(
        Quick("mean.update(loss)", "TorchMetrics looks for NaN in the value and in the weight, and asks the device twice."),
        Quick("weight = torch.full_like(loss, 128)", "The number is an argument of the kernel that fills the tensor."),
        Quick("weight = torch.tensor(128.0, device=device)", "A tensor is made on the host and copied; the host waits "
                                                             "for the "
                                                             "copy."),
        Quick("weighted = loss * torch.tensor(128.0)", "A zero-dimensional CPU tensor goes along with the kernel, like a "
                                                       "number."),
        Quick("mean.update(3.0)", "The number is made a tensor on the host and copied; then comes the NaN check."),
        Quick("value = mean.compute()", "It divides two tensors on the device. Only reading the value (`float`, `print`) "
                                        "waits."),
        Quick("moved = MeanMetric().to(device)", "Each state of the metric is copied from the host, and its default too."),
        Quick("counts = torch.bincount(labels, minlength=CLASSES)", "The result is as long as the largest label says, "
                                                                    "and only "
                                                                    "the device knows that, `minlength` or not."),
        Quick("counts = torch.zeros(CLASSES, device=device).scatter_add_(0, labels, ones)",
              "The length is known beforehand: it is that of the zeros."),
        Quick("mean_on_the_cpu.update(81.5)", "Number, metric and NaN check are all on the CPU: the device is not asked."),
    ),
)
