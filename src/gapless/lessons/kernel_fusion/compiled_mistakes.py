"""Lesson 07: compiled functions as learners get them wrong, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ...course.mistakes import Mistake

# -- gelu -------------------------------------------------------------------------------------------

GELU = (
    Mistake(lambda x: x * torch.sigmoid(1.702 * x), "That is an approximation by the logistic function: keep the formula "
                                                    "with `erf`."),
    Mistake(lambda x: F.gelu(x, approximate="tanh"), (
        "That is the approximation by `tanh`, near and not equal. The formula with `erf` is `F.gelu`'s default.")),
    Mistake(lambda x: 0.5 * x * (1 + torch.erf(x)), "The √2 under `x` is missing."),
    Mistake(lambda x: 0.5 * x * (1 + torch.erf(x * 2.0 ** 0.5)), "`x` is divided by √2, not multiplied by it."),
    Mistake(lambda x: x * (1 + torch.erf(x / 2.0 ** 0.5)), "The factor 0.5 is missing."),
    Mistake(lambda x: 0.5 * (1 + torch.erf(x / 2.0 ** 0.5)), "The factor `x` is missing: that is the share alone."),
    Mistake(lambda x: 0.5 * x * (1 - torch.erf(x / 2.0 ** 0.5)), "A sign: one **plus** `erf`."),
    Mistake(lambda x: 0.5 * x * torch.erfc(x / 2.0 ** 0.5), "`erfc` is 1 − `erf`: here it is 1 + `erf`."),
    Mistake(lambda x: F.relu(x), "That is ReLU."),
    Mistake(lambda x: F.silu(x), "That is SiLU: x · sigmoid(x)."),
    Mistake(lambda x: F.gelu(x).detach(), "No gradient comes back: was something detached, or compiled under `no_grad`?"),
)

# -- forward ----------------------------------------------------------------------------------------


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

# -- lengths ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """The step with one part in another way. ``place``: a length → its places, of any dtype and device."""

    place: Callable = lambda length, batch: torch.arange(length, device=batch.device) / length
    end: Callable = lambda out, batch: out.square().mean()
    writes: bool = True
    padded: int = 0

    def __call__(self, model):
        lengths = []

        def loss(batch):
            length = batch.shape[1]
            batch = batch + self.place(length, batch)[:, None]
            if self.padded:
                batch = F.pad(batch, (0, 0, 0, self.padded - length))
            return self.end(model(batch), batch)

        run = loss if next(model.parameters()).device.type == "cpu" else torch.compile(loss)

        def step(batch):
            if self.writes:
                lengths.append(batch.shape[1])
            return run(batch)

        return step, lengths


LONGEST = 160

MAKE_STEP = (
    Mistake(_Step(padded=LONGEST), (
        "The padding is in the mean. Take the mean over the rows that were there: a mask, or the sum divided by their "
        "number.")),
    Mistake(_Step(end=lambda out, batch: out.square().sum() / out.shape[-1]), "The mean is over all elements of the "
                                                                              "output."),
    Mistake(_Step(end=lambda out, batch: out.square().sum()), "The mean is wanted, not the sum."),
    Mistake(_Step(place=lambda length, batch: torch.arange(length, device=batch.device) / LONGEST), (
        "The places are divided by the batch's own length.")),
    Mistake(_Step(place=lambda length, batch: torch.zeros(length, device=batch.device)), "The places are missing."),
    Mistake(_Step(place=lambda length, batch: torch.arange(1, length + 1, device=batch.device) / length), (
        "The places count from 0.")),
    Mistake(_Step(writes=False), "The lengths are not written down any more: `step` has to append each to the list."),
    Mistake(_Step(end=lambda out, batch: out.square().mean().detach()), "No gradient comes back: was something detached?"),
)
