"""Lesson 08: how ``optimizer_in_backward`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ....course.plain import Unusable
from ..stage import CHANGES, LOSSES, REFUSED, make_optimizer, network_of, sampled

OTHERS = "optimizers of another network in the list"
MISSING = "trained parameters without an optimizer in the list"
STEPPED = "parameters of which the optimizers in the list have a state"
FAULT = "an error in the backward pass"


def _fail(gradient: torch.Tensor) -> None:
    raise RuntimeError(FAULT)


def ask_optimizer_in_backward(function, given, device):
    """What has become of the weights after some steps, the learning rate lowered in between, and whose optimizers were
    returned. Where nothing can be trained, or a backward pass fails, an error is an answer too."""
    options = given.options
    model = network_of(given, device)
    before = [sampled(parameter).clone() for parameter in model.parameters()]
    batches = list(zip(given.inputs["tokens"], given.inputs["labels"]))
    limit = {} if options["max_norm"] is None else {"max_norm": options["max_norm"]}
    refused, losses, optimizers, missing, stepped = None, [], [], [], []
    yield
    try:
        train, optimizers = _checked(function(
            model, lambda parameters: make_optimizer(options["optimizer"], parameters), **limit))
        listed = {each for optimizer in optimizers for group in optimizer.param_groups for each in group["params"]}
        missing = [name for name, each in model.named_parameters() if each.requires_grad and each not in listed]
        for number, (tokens, labels) in enumerate(batches):
            if number == options["lowered"]:
                for group in [group for optimizer in optimizers for group in optimizer.param_groups]:
                    group["lr"] *= 0.1
            outputs = model(tokens, extra=number in options["extra"])
            if number == options["failing"]:
                outputs.register_hook(_fail)
            loss = F.cross_entropy(outputs.flatten(0, 1), labels.flatten())
            del outputs
            losses.append(loss.detach())
            train(loss)
            del loss
    except Exception as error:
        if not options["bad"] and FAULT not in str(error):
            raise
        refused = type(error).__name__
    finally:
        own = set(model.parameters())
        others = any(parameter not in own for optimizer in optimizers for group in optimizer.param_groups
                     for parameter in group["params"])
        stateful = {each for optimizer in optimizers for each, state in optimizer.state.items() if state}
        stepped = [name for name, each in model.named_parameters() if each in stateful]
        # Hooks, optimizers and parameters refer to each other in a circle, part of which is C++: no collector sees it.
        for optimizer in optimizers:
            optimizer.state.clear()
        for parameter in model.parameters():
            (parameter._post_accumulate_grad_hooks or {}).clear()
    yield
    return {REFUSED: refused, LOSSES: losses, OTHERS: others,
            CHANGES: {name: sampled(parameter) - old for (name, parameter), old in zip(model.named_parameters(), before)},
            MISSING: missing, STEPPED: None if refused else stepped}


def _checked(returned) -> tuple:
    """Raises Unusable where it is not a function and a list of optimizers."""
    if (not isinstance(returned, tuple) or len(returned) != 2 or not callable(returned[0])
            or not isinstance(returned[1], (list, tuple))
            or not all(isinstance(each, torch.optim.Optimizer) for each in returned[1])):
        raise Unusable("return `(train, optimizers)`, a function of the loss and the list of the optimizers.")
    return returned
