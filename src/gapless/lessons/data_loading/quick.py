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
        Quick("x = batch.to(device)", "A plain copy waits, and before its turn comes for all that was queued earlier."),
        Quick("x = batch.to(device, non_blocking=True)",
              "The memory is pageable: the driver has to take the bytes out of it while the host stands by. Asking nicely "
              "does not help."),
        Quick("x = pinned.to(device)", "The memory would allow it, but nobody asked: a copy blocks unless told not to."),
        Quick("x = pinned.to(device, non_blocking=True)",
              "Pinned *and* told not to block: the copy is queued like a kernel."),
        Quick("x = batch.pin_memory()",
              "That is a copy from memory of the host to memory of the host: work for the host, which asks nothing of the "
              "device."),
        Quick("y.copy_(pinned[:128].repeat(2, 1), non_blocking=True)",
              "`repeat` makes a new tensor, and a new tensor is pageable: what is computed from pinned memory is not "
              "pinned."),
        Quick("x = pinned[:128].to(device, non_blocking=True)",
              "The first rows lie in the same pinned memory, one after another."),
        Quick("x = pinned.t()[:128].to(device, non_blocking=True)",
              "These elements lie apart: PyTorch first gathers them in memory of its own, which is pageable."),
        Quick("mean = torch.tensor([0.5, 0.4, 0.3], device=device)",
              "Three numbers of Python become a pageable tensor, and that is copied. Make such a tensor once, before the "
              "loop."),
        Quick("loss = y.mean().to(\"cpu\", non_blocking=True)",
              "PyTorch takes pinned memory for the result, so nobody waits. Nor is the number there yet: wait before you "
              "read it."),
    ))
