"""Lesson 09: what is right for ``make_batches``."""

from __future__ import annotations

import random


def right_make_batches(lengths, world, batch_size, epoch):
    """Samples of like length meet; each step's are assigned to the ranks like cards, and the steps are shuffled."""
    if len(lengths) < world:
        raise ValueError(f"{len(lengths)} samples for {world} ranks: some rank would have nothing to do")
    draw = random.Random(epoch)  # the same on each rank, and used by nothing else
    blurred = [length * draw.uniform(0.9, 1.1) for length in lengths]  # so that neighbours change
    order = sorted(range(len(lengths)), key=blurred.__getitem__)
    steps = -(-len(order) // (world * batch_size))
    cuts = [len(order) * step // steps for step in range(steps + 1)]
    of_steps = [order[start:end] for start, end in zip(cuts, cuts[1:])]
    draw.shuffle(of_steps)
    return [[step[rank::world] for step in of_steps] for rank in range(world)]
