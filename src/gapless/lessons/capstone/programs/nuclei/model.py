"""A network that finds boxes and masks, and what goes with boxes."""

import zlib

import torch
from torch import nn

from .config import STRIDE


def mish(x):
    return x * torch.tanh(torch.log(1 + torch.exp(x)))


class Block(nn.Module):
    """Half the height and the width."""

    def __init__(self, before, after):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=2, padding=1)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(after)

    def forward(self, x):
        x = mish(self.norm1(self.conv1(x)))
        return mish(self.norm2(self.conv2(x)))


class Network(nn.Module):
    """Pictures B×3×H×W → anchors A×4, and for each of them logits B×A×classes, moves B×A×4 and how to mix its mask
    B×A×shapes of the last, shapes B×shapes×H/4×W/4. H and W are multiples of 8."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.parts = [config.classes, 4, config.shapes]
        self.stem, self.middle = Block(3, config.width), Block(config.width, 2 * config.width)
        self.deep = Block(2 * config.width, 4 * config.width)
        self.shapes = nn.Conv2d(2 * config.width, config.shapes, 1)
        self.head = nn.Conv2d(4 * config.width, len(config.sizes) * sum(self.parts), 1)

    def forward(self, x):
        fine = self.middle(self.stem(x))
        out = self.head(self.deep(fine))
        anchors = make_anchors(out.shape[2], out.shape[3], self.config, x.device)
        logits, moves, mixes = out.permute(0, 2, 3, 1).reshape(len(x), len(anchors), -1).split(self.parts, dim=-1)
        return anchors, logits, moves, mixes, self.shapes(fine)


def make_network(config, device):
    """Each weight is drawn by its own name: a layer more or less leaves the others as they are."""
    network = Network(config)
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1:
            generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {config.seed}".encode()))
            nn.init.kaiming_normal_(parameter, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    with torch.no_grad():
        network.head.weight.mul_(0.2)  # at first boxes are nearly the anchors
    return network.to(device)


def make_anchors(height, width, config, device):
    """A square of each size at each place."""
    anchors = []
    for y in range(height):
        for x in range(width):
            for size in config.sizes:
                left, top = (x + 0.5) * STRIDE - size / 2, (y + 0.5) * STRIDE - size / 2
                anchors.append([left, top, left + size, top + size])
    return torch.tensor(anchors, device=device)


def overlaps(some, others):
    """Intersection over union of boxes …×N×4 with boxes …×M×4: …×N×M; zero where a box is empty."""
    some, others = some.unsqueeze(-2), others.unsqueeze(-3)
    sides = torch.minimum(some[..., 2:], others[..., 2:]) - torch.maximum(some[..., :2], others[..., :2])
    shared = sides[..., 0].clamp(min=0) * sides[..., 1].clamp(min=0)
    both = area(some) + area(others) - shared
    return shared / both.clamp(min=1e-6)


def area(boxes):
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def moves_to(anchors, boxes):
    """What the network should say of anchors whose boxes these are, neither of them empty."""
    size, wanted = anchors[..., 2:] - anchors[..., :2], boxes[..., 2:] - boxes[..., :2]
    way = (boxes[..., :2] + boxes[..., 2:] - anchors[..., :2] - anchors[..., 2:]) / 2
    return torch.cat([way / size, torch.log(wanted / size)], dim=-1)


def moved(anchors, moves):
    """The boxes of which the network says that."""
    size = anchors[..., 2:] - anchors[..., :2]
    centre = (anchors[..., :2] + anchors[..., 2:]) / 2 + moves[..., :2] * size
    half = size * torch.exp(moves[..., 2:].clamp(-2, 2)) / 2
    return torch.cat([centre - half, centre + half], dim=-1)
