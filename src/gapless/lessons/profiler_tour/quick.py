"""Lesson 01's quick questions: which lines launch a kernel?"""

from __future__ import annotations

import torch

from ...course.quick import Quick, QuickQuestions


def _names(device: torch.device) -> dict:
    return {"x": torch.rand(64, 128, device=device)}


QUICK = QuickQuestions(
    question="Does this line launch a kernel? (x is a 64×128 tensor of float32 on the device)",
    counts="kernels",
    setup=_names,
    questions=(
        Quick("y = x.t()", "A transpose is a view: other strides on the same memory. There is nothing to compute."),
        Quick("y = x.t().contiguous()", "Now the device has to move the elements into the new order: a copy."),
        Quick("y = x.reshape(-1)", "x is contiguous, so one long row is a view of it."),
        Quick("y = x.t().reshape(-1)", "The transpose is not contiguous: no strides describe that row, so reshape copies."),
        Quick("y = x.to(torch.float32)", "It is already float32 on that device: `to` returns x itself."),
        Quick("y = x.half()", "Another dtype means other bytes: each element is converted."),
        Quick("y = x.expand(8, 64, 128)", "A stride of 0 shows the same memory eight times; `repeat` would copy it."),
        Quick("y = torch.empty_like(x)", "It only asks the allocator for memory and does not write to it."),
        Quick("y = torch.ones_like(x)", "Here the device has to fill the memory, element by element."),
        Quick("y = x.cpu()", "A copy is work of the GPU (`memcpy`) but not a kernel. That is why utilisation leaves it "
                             "out."),
    ),
)
