"""Lesson 09: the headline's program, a language model's steps at the pace of the slowest of four ranks.

One rank is simulated in each step: the one with most tokens, for which the others wait. What the ranks send to each other is
not in it, and is the same in all programs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, zip_longest

import torch
from torch import nn

from .make_batches.look import BATCH, WORLD, sentences

WIDTH, LAYERS, STEPS = 512, 4, 60


def slowest_batches(make_batches: Callable) -> list[tuple[int, int]]:
    """(samples, longest) of the rank with most to do, in each step of an epoch."""
    lengths = sentences()
    ranks = make_batches(list(lengths), WORLD, BATCH, 0)
    shapes = [[(len(batch), max((lengths[place] for place in batch), default=0)) for batch in step]
              for step in zip_longest(*ranks, fillvalue=())]
    return [max(step, key=lambda shape: shape[0] * shape[1]) for step in shapes]


def paced_step(make_batches: Callable, device: torch.device) -> Callable[[], None]:
    """A step of training whose batches are, one after another, those of the slowest rank. On the virtual GPU call it inside
    ``full_size``."""
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    shapes = cycle(slowest_batches(make_batches))

    def step():
        rows, longest = next(shapes)
        loss = model(torch.zeros(rows, longest, WIDTH, device=device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def size_in_words(device: torch.device) -> str:
    """At what size the headline's programs run."""
    return (f"the slowest of {WORLD} ranks in each step, {BATCH} sentences of random length each, {LAYERS} layers of "
            f"{WIDTH} (our choice), communication left out")
