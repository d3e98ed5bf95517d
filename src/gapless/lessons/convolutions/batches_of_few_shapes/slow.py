"""Lesson 05: ``batches_of_few_shapes`` as handed out."""

from __future__ import annotations

import torch


def batches_of_few_shapes(images, batch_size, max_shapes):
    """Batches of images (a list of C×H×W of any sizes): (B×C×H×W, mask B×H×W, indices), padded with zeros."""
    batches = []
    for start in range(0, len(images), batch_size):
        indices = list(range(start, min(start + batch_size, len(images))))
        height = max(images[i].shape[1] for i in indices)
        width = max(images[i].shape[2] for i in indices)
        batch = images[0].new_zeros(len(indices), images[0].shape[0], height, width)
        mask = torch.zeros(len(indices), height, width, dtype=torch.bool, device=batch.device)
        for row, i in enumerate(indices):
            batch[row, :, :images[i].shape[1], :images[i].shape[2]] = images[i]
            mask[row, :images[i].shape[1], :images[i].shape[2]] = True
        batches.append((batch, mask, indices))
    return batches
