"""Lesson 07: the usual wrong versions of ``make_step``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake


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
    Mistake(_Step(place=lambda length, batch: torch.arange(length, device=batch.device)), (
        "The places are not divided by the batch's length.")),
    Mistake(_Step(end=lambda out, batch: out.mean().square()), (
        "The mean of the squares is wanted, not the square of the mean.")),
    Mistake(_Step(place=lambda length, batch: torch.arange(1, length + 1, device=batch.device) / length), (
        "The places count from 0.")),
    Mistake(_Step(place=lambda length, batch: torch.arange(length, device=batch.device) / (length - 1)), (
        "The last place is (L − 1) / L: divide by the length, not by the length less one.")),
    Mistake(_Step(writes=False), (
        "The lengths are not in the list that was returned: `step` has to append each to that list itself, no copy of it.")),
    Mistake(_Step(end=lambda out, batch: out.square().mean().detach()), "No gradient comes back: was something detached?"),
)
