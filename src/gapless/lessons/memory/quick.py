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
    question=("Does the device's memory hold more, or less, after this line than before it? (`x` and `w` are 256×256, "
              "float32, 256 KiB each; `w` and `v`, 1×256, are trained, and `w` has a gradient. Before each line came `y = "
              "x @ w` and `loss = (y * v).square().sum()`; `losses` is an empty list.)"),
    counts=KIB,
    setup=_setup,
    questions=(
        Quick("z = x @ w", "A new tensor of 256×256."),
        Quick("row = x[:1]", "A view: no new memory. While `row` lives, so does all of `x`."),
        Quick("x.mul_(2)", "In place."),
        Quick("total = (x @ w).sum().item()", "Product and sum are gone when the line is over: nothing refers to them."),
        Quick("losses.append(loss)", "Nothing new, yet: but now `loss` and its graph stay when the name is bound anew."),
        Quick("del y", "The name goes. The graph of `loss` still has the tensor: the gradient of `v` needs it."),
        Quick("loss.backward()", "What the graph had saved and nobody else refers to goes (`y * v`); `v` gets a gradient."),
        Quick("w.grad = None", "Nothing refers to the gradient any more."),
        Quick("w.grad.zero_()", "Zeros take as much as any other numbers."),
        Quick("torch.get_device_module(device).empty_cache()", "It gives back what PyTorch keeps in reserve, and frees "
                                                               "nothing that is held."),
    ),
)
