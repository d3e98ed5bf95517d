"""Lesson 07: the usual wrong versions of ``make_step``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake
from .cases import LONGEST


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


MAKE_STEP = (
    Mistake(_Step(padded=LONGEST), (
        "The mean includes the padding. Take the mean over the real rows: use a mask, or divide the sum by their number.")),
    Mistake(_Step(end=lambda out, batch: out.square().sum() / out.shape[-1]),
            "Take the mean over all elements of the output."),
    Mistake(_Step(end=lambda out, batch: out.square().sum()), "Return the mean, not the sum."),
    Mistake(_Step(place=lambda length, batch: torch.arange(length, device=batch.device) / LONGEST), (
        "Divide the places by the batch's own length.")),
    Mistake(_Step(place=lambda length, batch: torch.zeros(length, device=batch.device)), "The places are missing."),
    Mistake(_Step(place=lambda length, batch: torch.arange(length, device=batch.device)), (
        "You do not divide the places by the batch's length.")),
    Mistake(_Step(end=lambda out, batch: out.mean().square()), (
        "Return the mean of the squares, not the square of the mean.")),
    Mistake(_Step(place=lambda length, batch: torch.arange(1, length + 1, device=batch.device) / length), (
        "The places count from 0.")),
    Mistake(_Step(place=lambda length, batch: torch.arange(length, device=batch.device) / (length - 1)), (
        "The last place is (L − 1) / L: divide by the length, not by the length less one.")),
    Mistake(_Step(writes=False), (
        "The list that you returned lacks the lengths. `step` has to append each to that list itself, not to a copy.")),
    Mistake(_Step(end=lambda out, batch: out.square().mean().detach()), (
        "No gradient comes back: was something detached, or computed under `no_grad`?")),
)
