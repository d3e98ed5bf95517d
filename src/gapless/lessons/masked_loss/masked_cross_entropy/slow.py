"""Lesson 02: ``masked_cross_entropy`` as handed out."""

from __future__ import annotations

import torch.nn.functional as F

from ..stage import IGNORE


def masked_cross_entropy(pred, target):
    """Mean cross-entropy of pred B×C×H×W float over the labels B×H×W int64 that are not ignored."""
    classes = pred.shape[1]
    valid = target != IGNORE
    rows = pred.permute(0, 2, 3, 1)
    valid_rows = rows[valid.unsqueeze(-1).expand(-1, -1, -1, classes)].reshape(-1, classes)
    return F.cross_entropy(valid_rows, target[valid])
