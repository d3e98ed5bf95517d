"""Lesson 07: the slow program, a small language model, every formula written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from .attention import slow
from .gelu import slow as gelu_slow
from .head_loss import slow as head_loss_slow
from .swish import slow as swish_slow

LAYERS, WIDTH, HEADS, WORDS = 2, 512, 8, 8_192
BATCH, LENGTH = 8, 512


@dataclass(frozen=True)
class Fixes:
    """The functions that the model is made of; ``compiled``: the whole forward pass is compiled."""

    gelu: Callable = gelu_slow.gelu
    swish: Callable = swish_slow.swish
    attention: Callable = slow.attention
    head_loss: Callable = head_loss_slow.head_loss
    compiled: bool = False


class Block(nn.Module):
    """Attention, then a layer that is gated by swish and goes through GELU; a residual connection around each."""

    def __init__(self, fixes: Fixes):
        super().__init__()
        self.fixes = fixes
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gate, self.up, self.down = (nn.Linear(*size) for size in (
            (WIDTH, 2 * WIDTH), (WIDTH, 2 * WIDTH), (2 * WIDTH, WIDTH)))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """``x``: B×L×D; ``mask``: B×1×L×L, True where a query may look."""
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).movedim(2, 0).transpose(2, 3)
        x = x + self.out(self.fixes.attention(*heads, mask).transpose(1, 2).flatten(2))
        h = self.norms[1](x)
        return x + self.down(self.fixes.swish(self.gate(h)) * self.fixes.gelu(self.up(h)))


class Model(nn.Module):
    """Words in, the mean loss of the next word out."""

    def __init__(self, fixes: Fixes):
        super().__init__()
        self.fixes = fixes
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(fixes) for _ in range(LAYERS))
        self.gate, self.norm = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.ones(WIDTH))

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """``words``: B×L, int64."""
        x = first = self.words(words)
        for block in self.blocks:
            x = block(x, mask)
        target = F.pad(words[:, 1:], (0, 1), value=-100)
        return self.fixes.head_loss(x.flatten(0, 1), first.flatten(0, 1), self.gate(x).flatten(0, 1), self.norm,
                                    self.words.weight, target.flatten())


def training_step(device: torch.device, fixes: Fixes = Fixes()) -> Callable[[], None]:
    """Forward in mixed precision, backward, and a step of AdamW. On the virtual GPU call it inside ``full_size``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Model(fixes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    words = torch.randint(WORDS, (BATCH, LENGTH), device=device)
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=device).tril().expand(BATCH, 1, LENGTH, LENGTH)
    loss = torch.compile(model) if fixes.compiled else model

    def step():
        with torch.autocast(device.type, torch.bfloat16):
            value = loss(words, mask)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
