"""Lesson 07: ten lines, and whether each needs a kernel. It answers itself."""

from __future__ import annotations

import torch

from ...course.quick import KERNELS, Quick, QuickQuestions


def _setup(device: torch.device) -> dict:
    return {"x": torch.rand(64, 32, device=device), "w": torch.rand(32, device=device)}


QUICK = QuickQuestions(
    question="Does the device have to launch a kernel for this line? (`x` is 64×32, `w` has 32 numbers; both on the "
             "device.)",
    counts=KERNELS,
    setup=_setup,
    questions=(
        Quick("y = x * 1.0", "No number changes, but all of it is read and written."),
        Quick("y = x.T", "A view."),
        Quick("y = x.unsqueeze(0).expand(8, -1, -1)", "Eight times the same memory: strides of zero."),
        Quick("y = x.repeat(8, 1)", "Eight copies."),
        Quick("y = x[:, ::2]", "A view: every second column, by its stride."),
        Quick("y = x.reshape(-1)", "The numbers already lie one after the other: a view."),
        Quick("y = x.T.reshape(-1)", "The numbers do not lie one after the other: a copy."),
        Quick("y = torch.addcmul(x, x, w)", "One kernel in place of two."),
        Quick("y = x.float()", "It is float32 already, so the call returns it unchanged."),
        Quick("y = torch.empty_like(x)", "Memory with nothing in it: nothing to launch."),
    ),
)
