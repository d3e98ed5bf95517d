"""Lesson 06: optimizers that are made in another way than is asked for, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake
from .stage import AMSGRAD, AVERAGES, BETAS, DECAYS, EPS, FROZEN, HOW, KIND, RATES, STEPS, WEIGHTS


def made(decays=lambda parameter: parameter.dim() > 1, decay: float = 0.1, lr: float = 1e-3, kind=torch.optim.AdamW,
         **options):
    """An optimizer of two groups; ``decays``: of which parameters."""
    def make_optimizer(parameters):
        groups = {True: [], False: []}
        for parameter in parameters:
            groups[bool(decays(parameter))].append(parameter)
        return kind([{"params": group, "weight_decay": decay if key else 0.0} for key, group in groups.items() if group],
                    lr=lr, **options)

    return make_optimizer


_ALL = "Biases and norms decay too. Put parameters with at most one dimension into a group with `\"weight_decay\": 0.0`."
OPTIMIZER_MISTAKES = (
    Mistake(made(lambda parameter: True), _ALL),
    Mistake(made(lambda parameter: True, decay=0.01), (
        "The weight decay is AdamW's default, 0.01, for all. " + _ALL)),
    Mistake(made(decay=0.0), "Nothing decays: give the matrices' group a `\"weight_decay\": 0.1`."),
    Mistake(made(lambda parameter: parameter.dim() <= 1), "The two groups are swapped: matrices decay."),
    Mistake(made(decay=0.01), "The matrices' decay is 0.1."),
    Mistake(made(lambda parameter: parameter.dim() == 2), "Parameters with more than two dimensions must decay too."),
    Mistake(made(lambda parameter: parameter.dim() > 0), "Parameters with one dimension, such as biases, must not decay."),
    Mistake(made(lambda parameter: parameter.squeeze().dim() > 1), (
        "You did not count the dimensions of size 1. A matrix of one row has two dimensions too: use `parameter.dim()`.")),
    Mistake(made(lambda parameter: parameter.numel() > 8), (
        "The number of elements does not tell what a parameter is: a bias may be long. The number of dimensions does.")),
    Mistake(made(lr=1e-2), "The learning rate is 0.001."),
    Mistake(made(betas=(0.9, 0.95)), "The betas are not AdamW's defaults, 0.9 and 0.999."),
    Mistake(made(amsgrad=True), "`amsgrad` is another method, which divides by the largest average so far."),
    Mistake(made(maximize=True), "`maximize` climbs instead of descending."),
)
_WHY = {
    KIND: "The method must stay AdamW.",
    FROZEN: "A frozen parameter must stay frozen: leave its `requires_grad` as it is.",
    DECAYS: "Matrices decay by 0.1, parameters with at most one dimension by 0.",
    RATES: "The learning rate is 0.001 in all groups.",
    AMSGRAD: "`amsgrad` is another method.",
    BETAS: "The betas must be AdamW's defaults.",
    EPS: "`eps` must be AdamW's default, 10⁻⁸.",
    STEPS: "A step whose gradients are not finite is neither taken nor counted. GradScaler and the optimizer do that for "
           "you.",
    AVERAGES: "The optimizer's averages must be those of the gradients without the scale.",
    WEIGHTS: "The weights must be those of AdamW with these groups.",
    HOW: "With a complex parameter, lists must update all of them, the real ones too. `fused=False` means a loop, and so "
         "does `foreach=False`. None leaves the choice to PyTorch, which uses lists.",
}


def explain(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if not isinstance(found, dict):
        return None
    return next((why for name, why in _WHY.items() if found.get(name) != wanted[name]), None)
