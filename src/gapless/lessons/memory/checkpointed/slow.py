"""Lesson 08: ``checkpointed`` as handed out."""

from __future__ import annotations

import torch.nn.functional as F


def checkpointed(model):
    """The forward pass of a network of blocks, a function of images N×3×H×W."""
    def forward(images):
        x = images
        for block in model.blocks:
            x = block.conv(x)
            x = block.resize(block.drop(F.gelu(block.norm(x))))
        return model.head(x)

    return forward
