"""Lesson 07: the usual wrong versions of ``forward``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake


@dataclass(frozen=True)
class _Forward:
    """The layer with one part in another way."""

    largest: Callable = lambda h: h.abs().max().detach()
    positive: Callable = lambda h: h.mean() > 0
    choose: Callable = lambda positive, h: torch.where(positive, torch.tanh(h), F.softplus(h))
    end: Callable = lambda h: h.square().mean()
    scaled: bool = True

    def __call__(self, x, weight):
        h = x @ weight
        if self.scaled:
            h = h / self.largest(h)
        return self.end(self.choose(self.positive(h), h))


FORWARD = (
    Mistake(_Forward(largest=lambda h: h.abs().max()), (
        "The values are right. A number that `.item()` gave has no gradient, and your tensor has one: `.detach()` it.")),
    Mistake(_Forward(choose=lambda positive, h: torch.where(positive, F.softplus(h), torch.tanh(h))), (
        "The two sides are the wrong way round: `torch.where(condition, a, b)` takes `a` where the condition holds.")),
    Mistake(_Forward(positive=lambda h: h > 0), (
        "Each element chooses for itself: it is the mean of all that decides for all.")),
    Mistake(_Forward(choose=lambda positive, h: torch.tanh(h)), "`tanh` is taken whatever the mean is."),
    Mistake(_Forward(choose=lambda positive, h: F.softplus(h)), "`softplus` is taken whatever the mean is."),
    Mistake(_Forward(largest=lambda h: h.max().detach()), "The largest number by its absolute value is wanted: "
                                                          "`h.abs().max()`."),
    Mistake(_Forward(largest=lambda h: h.abs().amax(0).detach()), "One largest number for all, not one for each column."),
    Mistake(_Forward(largest=lambda h: h.norm().detach()), "That is the norm: divide by the largest number."),
    Mistake(_Forward(scaled=False), "`h` is to be divided by its largest number."),
    Mistake(_Forward(positive=lambda h: h.sum() > 1), "It is whether the mean is above zero that decides."),
    Mistake(_Forward(end=lambda h: h.square().sum()), "The mean of the squares is wanted, not their sum."),
    Mistake(_Forward(end=lambda h: h.mean()), "The squares are missing."),
    Mistake(_Forward(end=lambda h: h.square().mean().detach()), "No gradient comes back: was something detached?"),
)
