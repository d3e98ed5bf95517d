"""Lesson 07: what is right where the function as handed out is not. Nothing is compiled here: it is the values that are
told."""

from __future__ import annotations

import math
import statistics

import torch
import torch.nn.functional as F

NOISE = 0.05  # of a step: less is no gain


def right_predicted_gain(kernels, outputs):
    """Bytes before over bytes after: a tensor from outside is read once, one that lives on is written once."""
    before = sum(sum(part.values()) for kernel in kernels for part in kernel)
    made, after = set(), {}
    for reads, writes in kernels:
        after.update((("read", name), size) for name, size in reads.items() if name not in made)
        after.update((("write", name), size) for name, size in writes.items() if name in outputs)
        made.update(writes)
    return before / sum(after.values()) if after else 1.0


def right_worth_compiling(eager, compiled, steps):
    """The first compilation's price over what a step gains, later compilations being part of a step's price."""
    usual = [ms for ms, compiles in compiled if not compiles]
    if not usual:
        return False, None
    before, steady = statistics.median(eager), statistics.median(usual)
    again = [ms - steady for ms, compiles in compiled[1:] if compiles]
    gain = before - steady - sum(again) / max(1, len(compiled) - 1)
    if gain <= NOISE * before:
        return False, None
    after = max(1, math.ceil((compiled[0][0] - steady) / gain))
    return after <= steps, after


def right_forward(x, weight):
    """The largest number and the choice stay on the device."""
    h = x @ weight
    h = h / h.abs().max().detach()
    return torch.where(h.mean() > 0, torch.tanh(h), F.softplus(h)).square().mean()


def right_make_step(model):
    """The list is Python's affair, and nothing hangs on the length."""
    lengths = []

    def step(batch):
        lengths.append(batch.shape[1])
        place = torch.arange(batch.shape[1], device=batch.device) / batch.shape[1]
        return model(batch + place[:, None]).square().mean()

    return step, lengths
