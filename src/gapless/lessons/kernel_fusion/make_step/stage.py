"""Lesson 07: how ``make_step`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ....course.plain import Unusable
from ....measure.compile_calls import CompileCalls
from ..stage import gradient_of, gradients_of, number_of, quiet, some

WIDTH = 8
LOSSES, LENGTHS, STALE = "losses", "lengths", "has another step these lengths too"
AGAIN = "is torch.compile called after the first batch"
MODE, OF_BATCHES = "is the model in another mode afterwards", "gradients of the batches"


def ask_lengths(function, given, device):
    """The losses of batches of many lengths, between which the weights change once, the gradients that they leave, the
    lengths that were written down, whether something is compiled by hand in later batches, and whether the model's mode is
    changed."""
    generator = torch.Generator().manual_seed(given.options["seed"])
    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    model = model.to(device).train(given.options["training"])
    batches = [batch.detach().requires_grad_(given.options["grad"]) for batch in given.inputs["batches"]]
    if device.type != "cpu":
        torch._dynamo.reset()  # what was compiled for an earlier model would count for this one
    yield
    made = function(model)
    if not isinstance(made, (tuple, list)) or len(made) != 2 or not callable(made[0]):
        raise Unusable("return two things, `step, lengths`: a function, and the list of the lengths that it got.")
    step, lengths = made
    losses = []
    # With a lower limit it would soon run as it is written, and compile no more.
    with quiet(), torch._dynamo.config.patch(recompile_limit=8), CompileCalls() as compiled:
        for number, batch in enumerate(batches):
            if number == 1:
                compiled.count = 0
            if number == len(batches) // 2:  # as an optimizer's step does
                with torch.no_grad():
                    torch._foreach_mul_(list(model.parameters()), 1.5)
            loss = number_of(step(batch), device)
            if loss.requires_grad:
                loss.backward()
            losses.append(loss.detach())
    yield
    found = {LOSSES: torch.stack(losses), LENGTHS: list(lengths), AGAIN: compiled.count > 0}
    found[MODE] = any(module.training != given.options["training"] for module in model.modules())
    if given.options["grad"]:
        found[OF_BATCHES] = torch.cat([some(gradient_of(batch)) for batch in batches])
    others = function(model)[1]
    return {**found, STALE: others is lengths or len(others) > 0, **gradients_of(**{
        name.replace(".", " "): parameter for name, parameter in model.named_parameters()})}
