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
              "of the host's.)"),
    counts="waits",
    setup=setup,
    questions=(
        Quick("y = x @ x",
              "It queues a kernel. The result's size follows from the sizes of its inputs, which the host knows."),
        Quick("total = x.sum().item()",
              "`.item()` makes a Python number of it: the host has to stand still until the number is there."),
        Quick("if x.sum() > 0: pass", "Python has to go one way or the other, and only the device knows which."),
        Quick("if x.shape[0] > 3: pass",
              "Shapes, dtypes and devices are the host's own records. Nothing is asked of the device."),
        Quick('text = f"loss {loss:.4f}"',
              "Text needs digits, and those are on the device. `print(loss)` is the same."),
        Quick("host = x.cpu()",
              "A copy to ordinary (pageable) memory returns when the values have arrived, and so it waits for "
              "whatever makes them."),
        Quick("pinned.copy_(x, non_blocking=True)",
              "The copy is queued like a kernel. Reading `pinned` too early is then your own risk: mark the end "
              "with an event."),
        Quick("z = torch.zeros(3, device=device)", "The zeros are written by the device: one more slip on the rail."),
        Quick("t = torch.tensor(3.0, device=device)",
              "The 3.0 is first put into a tensor on the host, then copied from ordinary memory; PyTorch waits for "
              "that copy. `torch.full((), 3.0, device=device)` does not."),
        Quick("high = max(loss, 1.0)",
              "Python's `max` compares, so it needs a yes or a no. `loss.clamp(min=1.0)` stays on the device."),
    ),
)
