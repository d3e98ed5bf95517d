"""Lesson 08: the usual wrong ways to let the optimizer work in the backward pass, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from ....course.mistakes import Mistake


def plain(params: list, make_optimizer: Callable, clip: Callable = lambda: None) -> tuple[Callable, list]:
    """The loop as it was handed out, with gradients clipped by ``clip()``."""
    optimizer = make_optimizer(params)

    def train(loss):
        loss.backward()
        clip()
        optimizer.step()
        optimizer.zero_grad()

    return train, [optimizer]


@dataclass(frozen=True)
class _InBackward:
    """Steps within the backward pass, with something done otherwise. ``limited``: what becomes of ``max_norm``."""

    anew: bool = False
    freed: str = "after"
    limited: str = "plain"
    given: bool = True
    refuses: bool = True
    steps: int = 1

    def __call__(self, model, make_optimizer, max_norm=None):
        params = [param for param in model.parameters() if param.requires_grad]
        if not params:
            if self.refuses:
                raise ValueError("nothing to train")
            return (lambda loss: None), []
        if max_norm is not None and self.limited == "plain":
            return plain(params, make_optimizer, lambda: nn.utils.clip_grad_norm_(params, max_norm))
        optimizers = {param: make_optimizer([param]) for param in params}
        seen: list[torch.Tensor] = []

        def step(param):
            if self.freed == "before":
                param.grad = None
            if max_norm is not None:
                self._clip(param, max_norm, seen)
            optimizer = make_optimizer([param]) if self.anew else optimizers[param]
            for _ in range(self.steps):
                optimizer.step()
            if self.freed == "after":
                param.grad = None

        for param in params:
            param.register_post_accumulate_grad_hook(step)

        def train(loss):
            seen.clear()
            loss.backward()

        return train, list(optimizers.values()) if self.given else []

    def _clip(self, param, max_norm: float, seen: list) -> None:
        if self.limited == "own norm":
            nn.utils.clip_grad_norm_([param], max_norm)
        elif self.limited == "so far":
            seen.append(param.grad.norm())
            param.grad.mul_((max_norm / (torch.stack(seen).norm() + 1e-6)).clamp(max=1.0))
        elif self.limited == "values":
            nn.utils.clip_grad_value_([param], max_norm)


def _mistake(why: str, **parts) -> Mistake:
    return Mistake(_InBackward(**parts), why)


_NOT_GLOBAL = ("The norm of *all* gradients is known when the last of them is there, and by then the first have been used "
               "and freed: clipping by the global norm and steps within the backward pass exclude each other. Where "
               "`max_norm` is given, keep the plain loop.")
BACKWARD_MISTAKES = (
    _mistake("An optimizer was made anew for each step, and with it its state: momentum, and Adam's means, are what it "
             "remembers from the steps before. Make one for each parameter, once.", anew=True),
    _mistake("The gradients were thrown away before the optimizer's step, which then leaves the parameters alone: first the "
             "step, then `param.grad = None`, both in the hook.", freed="before"),
    _mistake("Each gradient was clipped by its own norm. " + _NOT_GLOBAL, limited="own norm"),
    _mistake("Each gradient was clipped by the norm of those that had come so far. " + _NOT_GLOBAL, limited="so far"),
    _mistake("Each gradient was clipped number by number. " + _NOT_GLOBAL, limited="values"),
    _mistake("`max_norm` was ignored. " + _NOT_GLOBAL, limited="ignored"),
    _mistake("The optimizers that take the steps are not in the list that was returned: whoever lowers the learning rate, "
             "or saves a checkpoint, has to reach all of them.", given=False),
    _mistake("Where no parameter requires a gradient there is nothing to train: raise ValueError, as the function did that "
             "was handed out.", refuses=False),
    _mistake("The optimizer took two steps with each gradient. Is the hook there twice?", steps=2),
    _mistake("The gradients are never set to None: those of the next step are added to them.", freed="never"),
)
