"""Lesson 05: what is right for ``batches_of_few_shapes``."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch.fx


def batches_of_few_shapes(images, batch_size, max_shapes):
    """Batches of at most ``max_shapes`` shapes: (B×C×H×W, mask B×H×W, indices), padded with zeros."""
    sizes = [each.shape[1:] for each in images]
    return [filled(images, indices, shape) for indices, shape in planned(sizes, batch_size, max_shapes)]


def planned(sizes: list[tuple[int, int]], batch_size: int, max_shapes: int, by: Callable = math.prod, rows: int | None = None
            ) -> list[tuple[list[int], tuple[int, int, int]]]:
    """(indices, B, H and W) of each batch: neighbours in size in one group, at most ``max_shapes`` groups."""
    order = sorted(range(len(sizes)), key=lambda i: by(sizes[i]))
    group = batch_size * -(-len(sizes) // (batch_size * max_shapes))
    found = []
    for start in range(0, len(order), max(group, 1)):
        members = order[start:start + group]
        height, width = (max(sizes[i][side] for i in members) for side in (0, 1))
        for first in range(0, len(members), batch_size):
            found.append((members[first:first + batch_size], (rows or batch_size, height, width)))
    return found


def filled(images, indices: list[int], shape: tuple[int, int, int], zero: float = 0) -> tuple:
    """A batch of that B, H and W, which holds the images of those indices in its first rows."""
    rows, height, width = shape
    batch = images[0].new_full((rows, images[0].shape[0], height, width), zero)
    mask = torch.zeros(rows, height, width, dtype=torch.bool, device=batch.device)
    for row, i in enumerate(indices):
        _, h, w = images[i].shape
        batch[row, :, :h, :w] = images[i]
        mask[row, :h, :w] = True
    return batch, mask, indices
