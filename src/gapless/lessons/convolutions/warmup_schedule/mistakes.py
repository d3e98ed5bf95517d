"""Lesson 05: the usual wrong versions of ``warmup_schedule``, and what to say of each."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ....course.mistakes import Mistake
from . import slow


def _schedule(warm: Callable | None = None, after: Callable | None = None, scale: Callable = lambda factor: factor):
    """``warm(factor, share)``: in the warm-up, of which this share has passed; ``after(factor, share)``: of the rest."""

    def warmup_schedule(optimizer, factor, warmup, total):
        factor = scale(factor)

        def of(step):
            if step < warmup:
                return (warm or (lambda factor, share: 1 + (factor - 1) * share))(factor, step / warmup)
            share = min((step - warmup) / (total - warmup), 1.0)
            return (after or (lambda factor, share: factor * (1 + math.cos(math.pi * share)) / 2))(factor, share)

        return torch.optim.lr_scheduler.LambdaLR(optimizer, of)

    return warmup_schedule


def _lambda(of: Callable):
    """``of(step, factor, warmup, total)``."""
    return lambda optimizer, factor, warmup, total: torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: of(step, factor, warmup, total))


def _cosine(share: float) -> float:
    return (1 + math.cos(math.pi * share)) / 2


def _line(step, factor, warmup):
    return 1 + (factor - 1) * step / warmup


SCHEDULE_MISTAKES = (
    Mistake(slow.warmup_schedule, "The full rate from the first step on: at random weights that is where a large batch "
                                       "diverges. Begin at the old rate, and come to `factor` times it in `warmup` steps."),
    Mistake(_schedule(warm=lambda factor, share: factor * share), "The warm-up begins at 0. It is to begin at the rate that "
                                                                  "the optimizer has, that of the small batch."),
    Mistake(_lambda(lambda step, factor, warmup, total: factor * (step + 1) / warmup if step < warmup else
                    factor * _cosine(min((step - warmup) / (total - warmup), 1.0))),
            "The warm-up begins at a fraction of the full rate. It is to begin at the rate that the optimizer has."),
    Mistake(_lambda(lambda step, factor, warmup, total: _line(step + 1, factor, warmup) if step < warmup else
                    factor * _cosine(min((step - warmup) / (total - warmup), 1.0))),
            "The warm-up is a step too early: at step 0 the rate is the optimizer's own, at step `warmup` it is `factor` "
            "times that."),
    Mistake(_schedule(warm=lambda factor, share: factor**share), "The warm-up is exponential: a line is wanted, the same "
                                                                 "amount more in each step."),
    Mistake(_schedule(warm=lambda factor, share: 1.0), "The rate stays low in the warm-up and then jumps: let it grow a "
                                                       "little in each step."),
    Mistake(_schedule(after=lambda factor, share: factor), "After the warm-up the rate stays high: half a cosine brings it "
                                                           "to 0 at step `total`."),
    Mistake(_schedule(after=lambda factor, share: factor * (1 - share)), "After the warm-up it falls in a line: half a "
                                                                         "cosine is wanted."),
    Mistake(_schedule(after=lambda factor, share: factor * math.cos(math.pi * share / 2)),
            "A quarter of a cosine: `(1 + cos(π · share)) / 2` goes from 1 to 0."),
    Mistake(_schedule(after=lambda factor, share: factor * (1 + math.cos(180 * share)) / 2),
            "`math.cos` takes radians: half a cosine goes from 0 to `math.pi`, not to 180."),
    Mistake(_schedule(after=lambda factor, share: 1 + (factor - 1) * _cosine(share)),
            "The cosine ends at the optimizer's own rate: at step `total` it is to be 0."),
    Mistake(_schedule(after=lambda factor, share: _cosine(share)), "After the warm-up the factor is lost: the cosine "
                                                                   "begins at `factor`."),
    Mistake(_lambda(lambda step, factor, warmup, total: _line(step, factor, warmup) if step < warmup else
                    factor * _cosine(min(step / total, 1.0))),
            "The cosine began at step 0 already: its share is `(step - warmup) / (total - warmup)`, or the rate jumps "
            "where the warm-up ends."),
    Mistake(_lambda(lambda step, factor, warmup, total: _line(step, factor, warmup) if step < warmup else
                    factor * _cosine(min((step - warmup) / total, 1.0))),
            "The cosine has `total - warmup` steps: so it is not at 0 when the training ends."),
    Mistake(_lambda(lambda step, factor, warmup, total: _line(step, factor, warmup) if step < warmup else
                    factor * _cosine((step - warmup) / (total - warmup))),
            "After `total` steps the cosine rises again: keep the rate at 0 (`min(share, 1)`)."),
    Mistake(_schedule(scale=lambda factor: factor**0.5), "The root of the factor is a rule for Adam-like optimizers; for "
                                                         "SGD the rate grows with the batch."),
    Mistake(_lambda(lambda step, factor, warmup, total: factor * _cosine(min(step / total, 1.0))),
            "There is no warm-up: the full rate from the first step on."),
    Mistake(_schedule(warm=lambda factor, share: factor), "There is no warm-up: the full rate from the first step on."),
    Mistake(_lambda(lambda step, factor, warmup, total: min(_line(step, factor, warmup) if warmup else factor, factor) * max(
        1 - step / total, 0.0)), "It falls in a line, and from the first step on: after the warm-up, half a cosine is "
                                 "wanted."),
)
