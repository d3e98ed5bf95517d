"""What the network is trained on."""

import torch
import torch.nn.functional as F

from .config import PADDING


def loss_of(logits, following):
    """The mean over the letters that are none of the padding; zero where all are."""
    kept = following != PADDING
    if kept.sum() == 0:
        return logits.sum() * 0
    loss = F.cross_entropy(logits[kept], following[kept])
    if torch.isnan(loss):
        raise FloatingPointError("the loss is not a number")
    return loss
