"""Lesson 05: ``to_channels_last`` as handed out."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def to_channels_last(model):
    """The model's forward pass, a function of images N×8×H×W in channels-last order."""
    model = model.to(memory_format=torch.channels_last)

    def forward(images):
        x = model.stem(images)
        for block in model.blocks:
            n, c, h, w = x.shape
            # the channels of each pixel, mixed among themselves
            pixels = x.permute(0, 2, 3, 1).reshape(n * h * w, c)
            mixed = block.mix(pixels).view(n, h, w, -1).permute(0, 3, 1, 2).contiguous()
            # what comes in, with zeros for the channels that are new
            shortcut = mixed.new_zeros(n, mixed.shape[1], h, w)
            shortcut[:, :c] = x
            x = F.relu(shortcut + block.norm(block.conv(mixed)))
        n, c, h, w = x.shape
        return model.head(x.contiguous().view(n, c, h * w).mean(2))

    return forward
