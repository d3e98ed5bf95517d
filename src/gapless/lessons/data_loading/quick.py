"""Lesson 04's quick questions: which copies does the host wait for?"""

from __future__ import annotations

import torch

from ...course.quick import WAITS, Quick, QuickQuestions


def _setup(device: torch.device) -> dict:
    batch = torch.rand(256, 1024)
    return {"batch": batch, "pinned": batch.pin_memory(), "y": torch.rand(256, 1024, device=device)}


QUICK = QuickQuestions(
    "Does the host wait for the device at this line? (`batch` and `pinned` are 256×1024 tensors of float32 on the host, the "
    "second in pinned memory; `y` is one on the device)",
    WAITS, _setup, (
        Quick("x = batch.to(device)", "A plain copy waits for everything that was queued before it, and then for "
              "itself."),
        Quick("x = batch.to(device, non_blocking=True)",
              "The memory is pageable: the driver has to take the bytes out of it while the host waits. "
              "`non_blocking=True` does not change that (except for 64 KB or less)."),
        Quick("x = pinned.to(device)", "The memory would allow it, but a copy blocks unless you say "
              "`non_blocking=True`."),
        Quick("x = pinned.to(device, non_blocking=True)",
              "Pinned *and* `non_blocking=True`: the copy is queued like a kernel."),
        Quick("x = batch.pin_memory()",
              "That is a copy from host memory to host memory. It is work for the host, and asks nothing of the device."),
        Quick("y.copy_(pinned[:128].repeat(2, 1), non_blocking=True)",
              "`repeat` makes a new tensor, and a new tensor is pageable. A result computed from pinned memory is not "
              "pinned."),
        Quick("x = pinned[:128].to(device, non_blocking=True)",
              "The first rows are in the same pinned memory, one after another."),
        Quick("x = pinned.t()[:128].to(device, non_blocking=True)",
              "These elements are not contiguous. PyTorch first gathers them in its own memory, which is pageable."),
        Quick("mean = torch.tensor([0.5, 0.4, 0.3], device=device)",
              "Three Python numbers become a pageable tensor, which is copied. Make such a tensor once, before the "
              "loop."),
        Quick("loss = y.mean().to(\"cpu\", non_blocking=True)",
              "PyTorch uses pinned memory for the result, so nobody waits. But the number is not there yet: wait before "
              "you read it."),
    ))
