"""Lesson 00: ten lines, and whether the host waits at them. The device answers."""

from __future__ import annotations

import torch

from ...course.quick import Quick, QuickQuestions


def setup(device: torch.device) -> dict:
    """The names that the lines use."""
    x = torch.rand(64, 64, device=device)
    return {"device": device, "x": x, "loss": x.mean(), "pinned": torch.empty(64, 64).pin_memory()}


QUICK = QuickQuestions(
    question=("Does the host wait at this line? (`x` and `loss` are on the device, `pinned` is a pinned tensor "
              "on the host.)"),
    counts="waits",
    setup=setup,
    questions=(
        Quick("y = x @ x",
              "It queues a kernel. The result's size follows from the sizes of its inputs, which the host knows."),
        Quick("total = x.sum().item()",
              "`.item()` turns it into a Python number. The host has to wait until the number is there."),
        Quick("if x.sum() > 0: pass", "Python has to take one branch or the other, and only the device knows which."),
        Quick("if x.shape[0] > 3: pass",
              "The host itself keeps shapes, dtypes and devices. It asks the device nothing."),
        Quick('text = f"loss {loss:.4f}"',
              "Text needs digits, and the digits are on the device. `print(loss)` is the same."),
        Quick("host = x.cpu()",
              "A copy to ordinary (pageable) memory returns when the values have arrived. So it waits for the kernels "
              "that compute them."),
        Quick("pinned.copy_(x, non_blocking=True)",
              "The copy is queued like a kernel. Do not read `pinned` too early: mark the copy's end with an event."),
        Quick("z = torch.zeros(3, device=device)", "The device writes the zeros: it is one more slip on the rail."),
        Quick("t = torch.tensor(3.0, device=device)",
              "PyTorch puts the 3.0 into a tensor on the host, copies it from ordinary memory, and waits for that copy. "
              "`torch.full((), 3.0, device=device)` does not wait."),
        Quick("high = max(loss, 1.0)",
              "Python's `max` compares, so it needs a bool. `loss.clamp(min=1.0)` stays on the device."),
    ),
)
