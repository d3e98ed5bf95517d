"""Lesson 06: how ``make_optimizer`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ....course.plain import Unusable, same_objects
from ..stage import in_bfloat16, some

KIND, DECAYS, RATES, AMSGRAD, BETAS, EPS, WEIGHTS, AVERAGES, STEPS, SCALE, HOW, FROZEN = (
    "kind", "weight decay of each parameter", "learning rate of each parameter", "parameters with amsgrad",
    "betas of each parameter", "eps of each parameter", "weights",
    "averages of the gradients", "steps that were taken", "scale", "way of each parameter, one of which is complex",
    "frozen parameters")


def ask_make_optimizer(function, given, device):
    """The optimizer in some steps of a GradScaler on the gradients that are given, step after step. ``scaled``: whether the
    scaler is switched on; ``begun``: the first step, which makes the optimizer's state, is not measured; ``frozen``: those
    that are not trained yet."""
    options = given.options
    parameters = [nn.Parameter(weight, requires_grad=place not in options["frozen"])
                  for place, weight in enumerate(in_bfloat16(given.inputs["weights"], options["bfloat16"]))]
    scaler = torch.amp.GradScaler(device.type, init_scale=options["scale"], growth_interval=10**6,
                                  enabled=options["scaled"])
    scaler.scale(torch.zeros((), device=device))  # makes the scale
    passed = list(parameters)
    optimizer = function(iter(parameters) if options["iterator"] else passed)
    same_objects("parameters", passed, parameters)
    _check(optimizer, parameters)
    grads, each = given.inputs["grads"], len(parameters)
    steps = [in_bfloat16(grads[start:start + each], options["bfloat16"]) for start in range(0, len(grads), each)]

    def take(grads) -> None:
        for place, (parameter, grad) in enumerate(zip(parameters, grads)):
            parameter.grad = None if place in options["without_gradient"] else grad
        scaler.step(optimizer)
        scaler.update()

    if options["begun"]:
        take(steps.pop(0))
    yield
    for grads in steps:
        take(grads)
    yield
    settings = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    states = [optimizer.state.get(parameter, {}) for parameter in parameters]
    groups = [settings[id(parameter)] for parameter in parameters]
    return {KIND: type(optimizer).__name__, FROZEN: sum(not parameter.requires_grad for parameter in parameters),
            DECAYS: [float(group["weight_decay"]) for group in groups],
            RATES: [f"{float(group['lr']):g}" for group in groups],
            AMSGRAD: sum(group["amsgrad"] for group in groups),
            BETAS: [[float(beta) for beta in group["betas"]] for group in groups],
            EPS: [f"{group['eps']:g}" for group in groups],
            STEPS: [state.get("step", 0.0) for state in states],
            WEIGHTS: [_real(parameter) for parameter in parameters],
            AVERAGES: [_real(state["exp_avg"]) if "exp_avg" in state else None for state in states],
            SCALE: scaler._scale if options["scaled"] else None,
            HOW: [_how(group) for group in groups] if any(map(torch.is_complex, parameters)) else None}


def _how(group: dict) -> str:
    """PyTorch takes lists where nobody chooses; one that is given as False leaves the loop."""
    if group["fused"]:
        return "fused"
    return "a loop" if not group["foreach"] and False in (group["fused"], group["foreach"]) else "lists"


def _check(optimizer, parameters: list[nn.Parameter]) -> None:
    """Raises Unusable where this is no AdamW of these parameters."""
    if not isinstance(optimizer, torch.optim.AdamW):
        what = "nothing: is there a `return`?" if optimizer is None else f"a {type(optimizer).__name__}."
        raise Unusable(f"it returned {what} Return a `torch.optim.AdamW`.")
    held = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    missing = [place for place, parameter in enumerate(parameters) if id(parameter) not in held]
    if missing:
        raise Unusable(f"the optimizer lacks {len(missing)} of {len(parameters)} parameters, such as number {missing[0]}, "
                       f"of shape {tuple(parameters[missing[0]].shape)}. Put each into one group, frozen ones too: they "
                       "may be trained later.")
    left = sum(parameter.grad is not None for parameter in parameters)
    if left:
        raise Unusable(f"it has left a gradient in {left} of {len(parameters)} parameters, which had none. The first step "
                       "then moves parameters that no loss uses: set `parameter.grad` back to None.")


def _real(tensor: torch.Tensor) -> torch.Tensor:
    found = some(tensor)
    return torch.view_as_real(found.detach()) if found.is_complex() else found
