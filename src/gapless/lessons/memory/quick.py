"""Lesson 08: quick questions."""

from __future__ import annotations

import torch

from ...course.quick import KIB, Quick, QuickQuestions


def _setup(device: torch.device) -> dict:
    x = torch.ones(256, 256, device=device)
    w = torch.ones(256, 256, device=device, requires_grad=True)
    v = torch.ones(1, 256, device=device, requires_grad=True)
    w.grad = torch.zeros_like(w)
    y = x @ w
    loss = (y * v).square().sum()
    return {"x": x, "w": w, "v": v, "y": y, "loss": loss, "losses": []}


QUICK = QuickQuestions(
    question=("Does this line change how much of the device's memory is in use? (`x` and `w` are 256×256, float32, 256 "
              "KiB each; `v` is 1×256. `w` and `v` are trained, and `w` has a gradient. Before each line, `y = x @ w` "
              "and `loss = (y * v).square().sum()` ran; `losses` is an empty list.)"),
    counts=KIB,
    setup=_setup,
    questions=(
        Quick("z = x @ w", "A new tensor of 256×256."),
        Quick("row = x[:1]", "A view: no new memory. While `row` lives, so does all of `x`."),
        Quick("x.mul_(2)", "In place."),
        Quick("total = (x @ w).sum().item()", "Nothing refers to the product and the sum after the line, so both are "
                                              "freed."),
        Quick("losses.append(loss)", "Nothing new, yet. But now `loss` and its graph stay when the name gets another "
                                     "value."),
        Quick("del y", "The name goes, but the graph of `loss` still has the tensor: the gradient of `v` needs it."),
        Quick("loss.backward()", "The graph frees the tensor to which only it refers (`y * v`), and `v` gets a "
                                 "gradient."),
        Quick("w.grad = None", "Nothing refers to the gradient any more."),
        Quick("w.grad.zero_()", "Zeros take as much memory as any other numbers."),
        Quick("torch.get_device_module(device).empty_cache()",
                "It returns what PyTorch keeps in reserve, and frees nothing that is held."),
    ),
)
