"""Lesson 05: a ResNet-50 whose times in both memory formats and precisions others have published, simulated beside them.

torchvision is imported when it is needed: the core does without.
"""

from __future__ import annotations

import gc

import torch

from ... import vgpu
from ...course.exercise import full_size
from ...course.headline import MarkdownText
from ...measure.device import device_name
from ...measure.profile import time_step
from ...vgpu.core.tuning import autotuned
from .workload import sgd_step

BATCH = 128
# (mixed precision, channels-last) → ms a step: torchvision's ResNet-50, batch 128 of 3×224×224, V100 SXM2.
PUBLISHED_MS = {(False, False): 342, (False, True): 413, (True, False): 152, (True, True): 111}


def resnet50_ms(device: torch.device, mixed_precision: bool, channels_last: bool, batch: int = BATCH) -> float:
    """A training step of torchvision's ResNet-50 on ``device``: ms. Raises ModuleNotFoundError, with what to do."""
    try:
        from torchvision.models import resnet50
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"this table needs torchvision's ResNet-50 ({error}): pip install torchvision") from error
    order = torch.channels_last if channels_last else torch.contiguous_format
    with full_size(device), autotuned():
        vgpu.forget_plans()
        gc.collect()  # what earlier cells have left cuts the memory into pieces that are too small for this network
        if device.type != "cpu":
            torch.get_device_module(device).empty_cache()
        model = resnet50().to(device, memory_format=order)
        images = torch.randn(batch, 3, 224, 224, device=device).contiguous(memory_format=order)
        target = torch.zeros(batch, dtype=torch.int64, device=device)
        step = sgd_step(model, images, target, mixed_precision)
        return time_step(step, warmup=2, steps=5, blocks=1, device=device).true_ms


def resnet50_table(device: torch.device) -> MarkdownText:
    """The four times on ``device`` beside the published ones, as a Markdown table."""
    heading = f"{'simulated' if device.type == 'vgpu' else 'measured'} {device_name(device)}, ms"
    lines = [f"| precision | memory format | {heading} | published, V100 SXM2, ms |", "|---|---|---:|---:|"]
    for (mixed_precision, channels_last), published in PUBLISHED_MS.items():
        words = "mixed" if mixed_precision else "float32", "channels-last" if channels_last else "contiguous"
        own_ms = resnet50_ms(device, mixed_precision, channels_last)
        lines.append(f"| {words[0]} | {words[1]} | {own_ms:.0f} | {published} |")
    return MarkdownText("\n".join(lines))
