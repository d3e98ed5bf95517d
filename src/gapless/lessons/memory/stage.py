"""Lesson 08: what an exercise's cell finds defined.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

_COMPARED = 200  # numbers of a tensor, of more about as many


def sampled(tensor: torch.Tensor) -> torch.Tensor:
    """About 200 of the tensor's numbers, evenly spread; all where there are fewer. A view."""
    return tensor.detach().flatten()[::max(1, -(-tensor.numel() // _COMPARED))]


def with_weights(make: Callable[[], nn.Module], weights: list[torch.Tensor], device: torch.device) -> nn.Module:
    """The network that ``make()`` returns, on ``device``, its parameters in the memory of ``weights``. Tied parameters stay
    tied, norms' statistics start again."""
    model = on_meta(make)
    given = {parameter: nn.Parameter(weight) for parameter, weight in zip(model.parameters(), weights, strict=True)}
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, given[parameter])
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.empty_like(buffer, device=device))
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.reset_running_stats()
    return model


def left_on(parameters: list[nn.Parameter]) -> dict[str, object]:
    """What somebody may have left on a network's parameters: gradients, and which of them are trained."""
    return {GRADIENTS: sum(each.grad is not None for each in parameters),
            TRAINED: [each.requires_grad for each in parameters]}


def on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.device("meta"):
        return make()


GRADIENTS, TRAINED = "gradients left on the parameters", "`requires_grad` of the parameters afterwards"
LOSS, LOSSES, STEPS, CHANGES, REFUSED = "loss", "losses", "steps of the optimizer", "changes of the weights", "raised"


class Extra(nn.Linear):
    """A linear layer times a number, which is a parameter without dimensions."""

    def __init__(self, before: int, after: int):
        super().__init__(before, after)
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.gain * super().forward(x)


class TokenNetwork(nn.Module):
    """Tokens N×T → logits N×T×``words``. The head's weight is the embedding's; ``extra`` is used where a forward pass asks
    for it."""

    def __init__(self, words: int, width: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.extra = Extra(width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens, extra: bool = False):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.head(self.norm(x + self.extra(x) if extra else x))


def network_of(given, device: torch.device) -> TokenNetwork:
    options = given.options
    model = with_weights(lambda: TokenNetwork(*options["sizes"]), given.inputs["weights"], device)
    for name in options["frozen"]:
        model.get_submodule(name).requires_grad_(False)
    return model


def make_optimizer(name: str, parameters) -> torch.optim.Optimizer:
    """Plain SGD, with momentum, or with weight decay as well, or Adam: "sgd", "momentum", "decay", "adam"."""
    return {"sgd": lambda: torch.optim.SGD(parameters, lr=0.5),
            "momentum": lambda: torch.optim.SGD(parameters, lr=0.2, momentum=0.9),
            "decay": lambda: torch.optim.SGD(parameters, lr=0.2, momentum=0.9, weight_decay=0.01),
            "adam": lambda: torch.optim.Adam(parameters, lr=0.02)}[name]()


CLASSES = 4


class Block(nn.Module):
    """Parts without a ``forward``, in the order in which they are used; GELU comes behind the norm."""

    def __init__(self, before: int, after: int, resize: nn.Module, *, dropout: float, momentum: float | None,
                 tracking: bool):
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(after, momentum=momentum, track_running_stats=tracking)
        self.drop = nn.Dropout(dropout)
        self.resize = resize


class BlockNetwork(nn.Module):
    """Classifies each pixel of images of 3×H×W (H and W multiples of 4): two blocks that halve the sides, two that double
    them, and a head. ``momentum`` and ``tracking`` are the norms'."""

    def __init__(self, width: int, *, dropout: float = 0.1, momentum: float | None = 0.1, tracking: bool = True):
        super().__init__()
        sizes = [(3, width), (width, 2 * width), (2 * width, 2 * width), (2 * width, width)]
        self.blocks = nn.ModuleList(
            Block(before, after, nn.AvgPool2d(2) if place < 2 else nn.Upsample(scale_factor=2, mode="bilinear"),
                  dropout=dropout, momentum=momentum, tracking=tracking)
            for place, (before, after) in enumerate(sizes))
        self.head = nn.Conv2d(width, CLASSES, 1)


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F}
