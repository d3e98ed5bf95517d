"""A small U-Net."""

import zlib

import torch
from torch import nn


def swish(x):
    return x * (1 / (1 + torch.exp(-x)))


class Block(nn.Module):
    """Two convolutions, each with a norm and an activation."""

    def __init__(self, before, after, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(after)

    def forward(self, x):
        x = swish(self.norm1(self.conv1(x)))
        return swish(self.norm2(self.conv2(x)))


def enlarge(x):
    """Twice the height and the width."""
    return x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)


class Network(nn.Module):
    """Photos B×3×H×W → logits B×classes×H×W; H and W are even."""

    def __init__(self, width, classes):
        super().__init__()
        self.stem = Block(3, width)
        self.down = Block(width, 2 * width, stride=2)
        self.up = Block(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        stem = self.stem(x)
        x = torch.cat([enlarge(self.down(stem)), stem], dim=1)
        return self.head(self.up(x))


def make_network(config, device):
    """Each weight is drawn by its own name: a layer more or less leaves the others as they are."""
    network = Network(config.width, config.classes)
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1:
            generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {config.seed}".encode()))
            nn.init.kaiming_normal_(parameter, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return network.to(device)
