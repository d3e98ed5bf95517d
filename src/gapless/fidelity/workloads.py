"""Five training steps that the virtual GPU's model was not fitted to, built from ``torch.nn`` alone.

ResNet-50 (He et al., 2015), a vision transformer (ViT-B/16; Dosovitskiy et al., 2020), GPT-2 small (Radford et al., 2019),
a U-Net (Ronneberger et al., 2015, with batch norms) and an LSTM language model. Data are random: what counts is time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Workload:
    """``network(small)`` and ``batch(small, device, dtype)`` (inputs and labels) of a step; ``small`` is for tests."""

    name: str
    network: Callable[[bool], nn.Module]
    batch: Callable[[bool, torch.device, torch.dtype], tuple[torch.Tensor, torch.Tensor]]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    optimizer: Callable[[list], torch.optim.Optimizer]

    def step(self, device: torch.device, dtype: torch.dtype, small: bool = False) -> Callable[[], torch.Tensor]:
        """The training step on ``device``: its parameters and inputs have ``dtype``. Made on the device itself, so that
        in ``vgpu.shape_only()`` no values are made."""
        torch.manual_seed(0)
        with torch.device(device):
            network = self.network(small).to(dtype)
        optimizer = self.optimizer(list(network.parameters()))
        inputs, labels = self.batch(small, device, dtype)

        def step() -> torch.Tensor:
            optimizer.zero_grad()
            loss = self.loss(network(inputs), labels)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step


# -- ResNet-50 --------------------------------------------------------------------------------------


class _Bottleneck(nn.Module):
    def __init__(self, channels_in: int, width: int, stride: int):
        super().__init__()
        out = 4 * width
        self.path = nn.Sequential(
            nn.Conv2d(channels_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity() if stride == 1 and channels_in == out else nn.Sequential(
            nn.Conv2d(channels_in, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.path(x) + self.shortcut(x), inplace=True)


def _resnet(small: bool) -> nn.Module:
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((1, 1, 1, 1) if small else (3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            layers.append(_Bottleneck(channels, width, 2 if stage and not block else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def _images(batch: int, size: int):
    def make(small: bool, device: torch.device, dtype: torch.dtype):
        count, side = (2, 32) if small else (batch, size)
        return (torch.randn(count, 3, side, side, device=device, dtype=dtype),
                torch.randint(1000, (count,), device=device))

    return make


def _classes(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, -2).float(), labels.flatten())


# -- transformers -----------------------------------------------------------------------------------


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                             for part in self.mixed(self.norm_attention(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_mlp(x))


class _Vit(nn.Module):
    def __init__(self, width: int, depth: int, heads: int, side: int, patch: int):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.head_token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(_Block(width, heads, causal=False) for _ in range(depth)), nn.LayerNorm(width))
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.head_token.expand(x.shape[0], -1, -1), x), dim=1) + self.places
        return self.head(self.blocks(x)[:, 0])


def _vit(small: bool) -> nn.Module:
    return _Vit(32, 2, 2, 32, 16) if small else _Vit(768, 12, 12, 224, 16)


GPT_WORDS, GPT_LENGTH = 50_304, 1024


class _Gpt(nn.Module):
    def __init__(self, words: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(_Block(width, heads, causal=True) for _ in range(depth)), nn.LayerNorm(width))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.blocks(self.words(x) + self.places(places)))


def _gpt(small: bool) -> nn.Module:
    return _Gpt(100, 16, 32, 2, 2) if small else _Gpt(GPT_WORDS, GPT_LENGTH, 768, 12, 12)


def _words(words: int, batch: int, length: int, small_length: int):
    def make(small: bool, device: torch.device, dtype: torch.dtype):
        shape = (2, small_length) if small else (batch, length)
        most = 100 if small else words
        return torch.randint(most, shape, device=device), torch.randint(most, shape, device=device)

    return make


# -- U-Net ------------------------------------------------------------------------------------------


def _twice(channels_in: int, channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
        nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True))


class _Unet(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([3, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in itertools.pairwise(widths))
        self.merge = nn.ModuleList(_twice(2 * a, a) for a in widths[:-1])
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        kept = []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, merge, beside in zip(reversed(self.up), reversed(self.merge), reversed(kept[:-1])):
            x = merge(torch.cat((beside, up(x)), dim=1))
        return self.out(x)


def _unet(small: bool) -> nn.Module:
    return _Unet(8, 2) if small else _Unet(64, 4)


def _masks(small: bool, device: torch.device, dtype: torch.dtype):
    count, side = (1, 32) if small else (8, 256)
    return (torch.randn(count, 3, side, side, device=device, dtype=dtype),
            torch.rand(count, 1, side, side, device=device).round().to(dtype))


# -- LSTM -------------------------------------------------------------------------------------------


class _LanguageLstm(nn.Module):
    def __init__(self, words: int, width: int, hidden: int, layers: int):
        super().__init__()
        self.words, self.lstm = nn.Embedding(words, width), nn.LSTM(width, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, words)

    def forward(self, x):
        return self.head(self.lstm(self.words(x))[0])


def _lstm(small: bool) -> nn.Module:
    return _LanguageLstm(100, 16, 32, 1) if small else _LanguageLstm(10_000, 512, 1024, 2)


# -- all --------------------------------------------------------------------------------------------


def _sgd(parameters: list) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def _adamw(parameters: list) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4)


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("resnet50", _resnet, _images(64, 224), _classes, _sgd),
        Workload("vit", _vit, _images(32, 224), _classes, _adamw),
        Workload("gpt", _gpt, _words(GPT_WORDS, 8, GPT_LENGTH, 16), _classes, _adamw),
        Workload("unet", _unet, _masks, F.binary_cross_entropy_with_logits, _sgd),
        Workload("lstm", _lstm, _words(10_000, 64, 64, 8), _classes, _sgd),
    )
}
