"""What an idiom is, and the tensors that it uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ... import vgpu

BIG = 100_000  # elements: 400 KB, more than the 64 KB that the driver puts aside of a pageable copy


@dataclass(frozen=True)
class Idiom:
    """One way of writing something. ``waits``: how often the host waits for the device in it; ``at_least``: a library
    under PyTorch may wait more often than PyTorch itself. ``source``: where that can be read; ATen means PyTorch's
    folder aten/src/ATen/native."""

    group: str
    name: str
    waits: int
    use: Callable[[Bag], object]
    reason: str
    source: str
    at_least: bool = False

    def agrees(self, found: int) -> bool:
        """Whether ``found`` waits are what the table says."""
        return found >= self.waits if self.at_least else found == self.waits


class Bag:
    """Small tensors on ``device`` and on the host, made again for each use: idioms write into them."""

    def __init__(self, device: torch.device):
        self.device = device
        self.module = getattr(torch, device.type)  # torch.cuda or torch.vgpu
        self.host = torch.arange(6.0).view(2, 3)
        self.x = self.host.to(device)
        self.mask = self.x > 2
        self.flag = (self.x > 2).any()
        self.index = torch.tensor([1, 0]).to(device)
        self.one = torch.tensor(1).to(device)
        self.number = torch.tensor(7.0).to(device)
        self.labels = torch.tensor([0, 1]).to(device)
        self.matrix = (2 * torch.eye(3)).to(device)
        self.image = torch.zeros(1, 1, 4, 4).to(device)
        self.signal = torch.ones(256).to(device)
        self.window = torch.ones(64).to(device)
        self.big = torch.zeros(BIG)
        self.pinned = self.big.pin_memory()
        self.big_x = self.big.to(device)
        self.layer = torch.nn.Linear(3, 2).to(device)
        self.host_state = torch.nn.Linear(3, 2).state_dict()
        self.norm = torch.nn.BatchNorm1d(3).to(device)
        self.average_norm = torch.nn.BatchNorm1d(3, momentum=None).to(device)
        self.encoder = torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 1, enable_nested_tensor=False).to(device)
        self.sequence = torch.zeros(2, 3, 4).to(device)
        self.padding = torch.tensor([[False] * 3, [False, True, True]]).to(device)
        self.causal = torch.triu(torch.full((3, 3), float("-inf")), 1).to(device)
        self.boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0]]).to(device)
        if not vgpu.is_shape_only():  # which has no sparse tensors
            positions = torch.tensor([[0, 1, 1], [1, 0, 0]])
            self.sparse = torch.sparse_coo_tensor(positions, torch.ones(3), (3, 3), check_invariants=False).to(device)
            self.adjacency = torch.eye(3).to_sparse().to(device)
        self.embedding = torch.nn.Embedding(3, 4, sparse=True).to(device)
        self.event = self.module.Event()
        self.event.record()

    def weights(self) -> list[torch.nn.Parameter]:
        """One parameter that has a gradient."""
        weight = torch.nn.Parameter(self.x.clone())
        weight.grad = self.x.clone()
        return [weight]

    def scaler_step(self, **options) -> None:
        """``GradScaler.step`` and ``update`` around an AdamW with ``options``."""
        weights = self.weights()
        scaler = torch.amp.GradScaler(self.device.type)
        scaler.scale(self.number)  # makes its state, as the first scaled loss does
        scaler.step(torch.optim.AdamW(weights, lr=0.1, **options))
        scaler.update()


def assign(x: torch.Tensor, index, value) -> None:
    """``x[index] = value`` as an expression."""
    x[index] = value


def group(name: str, *rows: tuple) -> tuple[Idiom, ...]:
    """Idioms of one group from rows (name, waits, use, reason, source[, at_least])."""
    return tuple(Idiom(name, *row) for row in rows)
