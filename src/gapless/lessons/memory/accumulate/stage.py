"""Lesson 08: how ``accumulate`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ....course.plain import Unusable
from ..stage import CHANGES, LOSSES, REFUSED, STEPS, make_optimizer, network_of, sampled


def ask_accumulate(function, given, device):
    """The losses of some steps, how many steps the optimizer took, and what has become of the weights. A ValueError is an
    answer too."""
    options = given.options
    model = network_of(given, device)
    before = [sampled(parameter).clone() for parameter in model.parameters()]
    optimizer = make_optimizer(options["optimizer"], [each for each in model.parameters() if each.requires_grad])
    steps: list[int] = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    if options["earlier_gradients"]:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
    refused, losses = False, []
    yield
    for tokens, labels in zip(given.inputs["tokens"], given.inputs["labels"]):
        try:
            losses.append(function(model, optimizer, tokens, labels, options["parts"]))
        except ValueError:
            if not options["bad"]:
                raise
            refused = True
    optimizer.zero_grad()  # before the memory is looked at
    yield
    for loss in losses:
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise Unusable(f"it returned a {type(loss).__name__}; the mean loss, a tensor with one element, is wanted: is "
                           "there a `return`?")
    return {REFUSED: refused, STEPS: len(steps), LOSSES: [loss.detach().flatten() for loss in losses],
            CHANGES: [sampled(parameter) - old for parameter, old in zip(model.parameters(), before)]}
