"""Lesson 05: ten lines, and whether the device has anything to do for them. It answers itself."""

from __future__ import annotations

import torch
from torch import nn

from ...course.quick import KERNELS, Quick, QuickQuestions


def _setup(device: torch.device) -> dict:
    y = torch.rand(4, 8, 6, 6, device=device)
    return {"x": y.contiguous(memory_format=torch.channels_last), "y": y,
            "conv": nn.Conv2d(8, 8, 3).to(device, memory_format=torch.channels_last)}


QUICK = QuickQuestions(
    question=("Does the device have to launch a kernel for this line? (`x` and `y` are 4×8×6×6, float32, on the device. "
              "`x` lies in channels-last order, `y` in contiguous order; `conv` is an `nn.Conv2d` in channels-last order.)"),
    counts=KERNELS,
    setup=_setup,
    questions=(
        Quick("p = y.permute(0, 2, 3, 1)", "A view: other strides, the same memory."),
        Quick("p = x.permute(0, 2, 3, 1).contiguous()", "Permuted like this it *is* contiguous: that is what "
                                                        "channels-last means."),
        Quick("c = x.contiguous()", "Without an argument it asks for contiguous order, so everything is copied."),
        Quick("c = x.contiguous(memory_format=torch.channels_last)", "It is in that order already."),
        Quick("c = y.contiguous(memory_format=torch.channels_last)", "A copy into the other order."),
        Quick("f = x.flatten(2)", "Rows and columns can be merged into one dimension with a fixed step, so a view is "
                                  "enough."),
        Quick("f = x.flatten(1)", "`x` does not lie in memory channel by channel, so this needs a copy."),
        Quick("f = x.float()", "It is float32 already, so the call returns `x` itself."),
        Quick("h = x.half()", "A cast reads and writes everything. Autocast casts for you, and that takes just as long."),
        Quick("conv.bias = None", "Python only drops the reference to a parameter. What the next call launches is "
                                  "another matter."),
    ),
)
