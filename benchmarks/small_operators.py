"""What a training step costs on the virtual GPU in real time, against the same step on the CPU: medians and ratios.

    python benchmarks/small_operators.py [--repeats 9] [--threads N] [--only NAME …]

Steps of many small operators show what an operator's call costs; the convolutions, which are large, what is left beside
arithmetic. ``plain`` is a step, ``profiled`` one under ``gapless.profile`` (its trace included), ``shape only`` one without
values; the four take turns.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from timing import interleaved, parse, parser, within
from torch import nn
from vgpu_overhead import resnet_step

from gapless import vgpu
from gapless.measure.profile import profile

Step = Callable[[], None]


def lstm_cells(device: torch.device | str, steps: int = 60) -> Step:
    """An ``LSTMCell``, called ``steps`` times in Python, forward and backward."""
    cell = nn.LSTMCell(16, 32).to(device)
    inputs = torch.randn(steps, 8, 16).to(device)

    def step():
        cell.zero_grad()
        h, c = torch.zeros(8, 32, device=device), torch.zeros(8, 32, device=device)
        for x in inputs:
            h, c = cell(x, (h, c))
        h.sum().backward()

    return step


def gru(device: torch.device | str) -> Step:
    """``nn.GRU`` of two layers over 30 steps: one operator on the device."""
    network = nn.GRU(16, 32, num_layers=2).to(device)
    inputs = torch.randn(30, 8, 16).to(device)

    def step():
        network.zero_grad()
        network(inputs)[0].square().mean().backward()

    return step


class Block(nn.Module):
    """A transformer block with its attention written out."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in
                   self.qkv(self.norm1(x)).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.project((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2's form: embeddings, blocks, a head that shares the embedding."""

    def __init__(self, vocabulary: int = 256, width: int = 64, heads: int = 4, layers: int = 4, length: int = 32):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def gpt(device: torch.device | str) -> Step:
    """A GPT-2 of width 64 and four layers with AdamW, 4×32 tokens."""
    network = Gpt().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), foreach=True)
    tokens, targets = (torch.randint(256, (4, 32)).to(device) for _ in range(2))

    def step():
        optimizer.zero_grad()
        F.cross_entropy(network(tokens).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()

    return step


def mlp(device: torch.device | str, foreach: bool) -> Step:
    """Eight linear layers of width 64 with Adam, multi-tensor or a loop over the parameters."""
    network = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.ReLU()))).to(device)
    optimizer = torch.optim.Adam(network.parameters(), foreach=foreach)
    inputs = torch.randn(32, 64).to(device)

    def step():
        optimizer.zero_grad()
        network(inputs).square().mean().backward()
        optimizer.step()

    return step


def convolutions(device: torch.device | str) -> Step:
    """Three convolutions of 64 channels on 64×64 images, forward and backward."""
    network = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(3))).to(device)
    images = torch.randn(8, 64, 64, 64).to(device)

    def step():
        network.zero_grad()
        network(images).square().mean().backward()

    return step


PROGRAMS: dict[str, Callable[[torch.device | str], Step]] = {
    "LSTMCell × 60": lstm_cells,
    "GRU": gru,
    "GPT-2, width 64": gpt,
    "MLP, Adam foreach": lambda device: mlp(device, True),
    "MLP, Adam for-loop": lambda device: mlp(device, False),
    "ResNet-18, 2×3×32×32": lambda device: resnet_step("resnet18", device, 2, 32),
    "convolutions 64×64×64": convolutions,
}


def main() -> None:
    own = parser(__doc__)
    own.set_defaults(repeats=9)
    own.add_argument("--only", nargs="*", choices=PROGRAMS, default=list(PROGRAMS), help="which steps")
    options = parse(own)
    device = vgpu.enable("a10g")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; medians of {options.repeats}, ms and × the CPU")
    print(f"{'':24s}{'CPU':>9s}" + "".join(f"{mode:>18s}" for mode in ("plain", "profiled", "shape only")))
    for name in options.only:
        make = PROGRAMS[name]
        exact = make(device)
        with vgpu.shape_only():
            simulated = make(device)
        times = interleaved({"CPU": make("cpu"), "plain": exact,
                             "profiled": lambda step=exact: profile(step, steps=1, warmup=0, device=device),
                             "shape only": within(vgpu.shape_only, simulated)}, options.repeats, warmup=2)
        cpu, *others = (statistics.median(values) for values in times.values())
        print(f"{name:24s}{cpu:9.2f}" + "".join(f"{ms:10.2f} {ms / cpu:6.1f}×" for ms in others), flush=True)


if __name__ == "__main__":
    main()
