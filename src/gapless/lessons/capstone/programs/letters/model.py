"""A small transformer that reads from left to right."""

import math
import zlib

import torch
from torch import nn


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


class Norm(nn.Module):
    """Each position with mean 0 and variance 1, then a scale and a shift."""

    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * self.scale + self.shift


class Attention(nn.Module):
    """Each position looks at those before it, and at itself."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.mix, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        size = x.shape[-1] // self.heads
        later = torch.full((x.shape[1], x.shape[1]), -math.inf).triu(1).to(x.device)
        queries, keys, values = self.mix(x).chunk(3, dim=-1)
        found = []
        for head in range(self.heads):
            part = slice(head * size, (head + 1) * size)
            scores = queries[..., part] @ keys[..., part].transpose(1, 2) / math.sqrt(size) + later
            found.append(torch.softmax(scores, dim=-1) @ values[..., part])
        return self.join(torch.cat(found, dim=-1))


class Block(nn.Module):
    """Attention, then two linear layers; a norm before each, a shortcut around each."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.attention = Attention(width, heads)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.shrink(gelu(self.grow(self.norm2(x))))


class Network(nn.Module):
    """Letters as they are read → logits B×T×letters for the letters that follow."""

    def __init__(self, config):
        super().__init__()
        self.letters = nn.Parameter(torch.empty(config.letters, config.width))
        self.register_buffer("rates", 0.02 ** (torch.arange(config.width) / config.width))
        self.blocks = nn.Sequential(*(Block(config.width, config.heads) for _ in range(config.layers)))
        self.norm, self.head = Norm(config.width), nn.Linear(config.width, config.letters)

    def forward(self, read):
        places = torch.arange(read.shape[1]).float().to(self.rates.device)
        x = read @ self.letters + torch.sin(places[:, None] * self.rates)
        return self.head(self.norm(self.blocks(x)))


def make_network(config, device):
    """Each weight is drawn by its own name: a layer more or less leaves the others as they are."""
    network = Network(config)
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1:
            generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {config.seed}".encode()))
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return network.to(device)
