"""Lesson 06: optimizers that are made in another way than is asked for, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake
from .stage import AMSGRAD, AVERAGES, BETAS, DECAYS, EPS, KIND, LOOPED, RATES, STEPS, WEIGHTS


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


_ALL = "Biases and norms decay too. What has at most one dimension gets a group with `\"weight_decay\": 0.0`."
OPTIMIZER_MISTAKES = (
    Mistake(made(lambda parameter: True), _ALL),
    Mistake(made(lambda parameter: True, decay=0.01), (
        "The weight decay is AdamW's own default, 0.01, for all. " + _ALL)),
    Mistake(made(decay=0.0), "Nothing decays: the matrices' group has a `\"weight_decay\": 0.1`."),
    Mistake(made(lambda parameter: parameter.dim() <= 1), "The two groups are the wrong way round: matrices decay."),
    Mistake(made(decay=0.01), "The matrices' decay is 0.1."),
    Mistake(made(lambda parameter: parameter.dim() == 2), "What has more than two dimensions decays too."),
    Mistake(made(lambda parameter: parameter.dim() > 0), "What has one dimension, as biases have, does not decay."),
    Mistake(made(lambda parameter: parameter.numel() > 8), (
        "The number of elements says nothing about what a parameter is: a bias may be long. Its dimensions do.")),
    Mistake(made(lr=1e-2), "The learning rate is 0.001."),
    Mistake(made(betas=(0.9, 0.95)), "The betas are not AdamW's own, 0.9 and 0.999."),
    Mistake(made(amsgrad=True), "`amsgrad` is another method, which divides by the largest average so far."),
    Mistake(made(maximize=True), "`maximize` climbs where it should descend."),
)
_WHY = {
    KIND: "The method is to stay AdamW.",
    DECAYS: "Matrices decay by 0.1, what has at most one dimension by 0.",
    RATES: "The learning rate is 0.001 in all groups.",
    AMSGRAD: "`amsgrad` is another method.",
    BETAS: "The betas are AdamW's own.",
    EPS: "`eps` is AdamW's own, 10⁻⁸.",
    STEPS: "A step whose gradients are not finite is not taken, nor counted: GradScaler and the optimizer see to that.",
    AVERAGES: "The optimizer's averages are those of the gradients without the scale.",
    WEIGHTS: "The weights are those of AdamW with these groups.",
    LOOPED: "`fused=False` means a loop, and so does `foreach=False`: None leaves the choice to PyTorch, which takes lists.",
}


def explain(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if not isinstance(found, dict):
        return None
    return next((why for name, why in _WHY.items() if found.get(name) != wanted[name]), None)
