"""Lesson 06: ten lines, and whether the device has anything to do for them. It answers itself."""

from __future__ import annotations

import torch
from torch import nn

from ...course.quick import KERNELS, Quick, QuickQuestions


def _setup(device: torch.device) -> dict:
    layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(10))).to(device)
    parameters = list(layers.parameters())
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    return {"parameters": parameters, "grads": [parameter.grad for parameter in parameters],
            "optimizer": torch.optim.SGD(parameters, lr=0.1), "weights": [parameter.detach() for parameter in parameters]}


QUICK = QuickQuestions(
    question=("Does this line launch a kernel? (`parameters` are the 20 parameters of ten linear layers, `grads` their "
              "gradients, `weights` the detached parameters, `optimizer` an SGD without momentum.)"),
    counts=KERNELS,
    setup=_setup,
    questions=(
        Quick("for p in parameters: p.grad = None", "Python only drops the reference to a tensor. The device is not "
                                                    "involved."),
        Quick("for p in parameters: p.grad.zero_()", "A kernel for each tensor writes the zeros."),
        Quick("optimizer.zero_grad()", "Since PyTorch 2.0 it sets None, unless you ask for zeros."),
        Quick("optimizer.zero_grad(set_to_none=False)", "It writes zeros, with a kernel for each gradient."),
        Quick("torch._foreach_zero_(grads)", "One kernel for the whole list."),
        Quick("optimizer.step()", "On a GPU, PyTorch uses the list version by default: one kernel for all 20, which "
                                  "have one dtype."),
        Quick("nn.utils.clip_grad_norm_(parameters, 1.0)", "All norms, their norm, the factor, the product: a handful of "
                                                           "kernels, and no wait."),
        Quick("views = [p.detach() for p in parameters]", "New tensors on the same memory."),
        Quick("torch._foreach_mul_(weights[:1], 0.9)", "A list of one is still a list, but it gains nothing."),
        Quick("heads = [weights[0][i:i + 2] for i in range(0, 8, 2)]",
                "Slices are views: a kernel runs only when you compute with them."),
    ),
)
