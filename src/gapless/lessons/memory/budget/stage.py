"""Lesson 08: how ``budget`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import gc

import torch
import torch.nn.functional as F
from torch import nn

from ....course.plain import Unusable, hooks_on
from ..stage import left_on

CLASSES = 128  # float32's are a whole number of the allocator's 512 bytes: no row's size is rounded up


class Images(nn.Module):
    """Images of 3 channels → the loss. Stages of 3×3 convolutions with norms, each stage with half the side and twice the
    channels: the activations of the first take most of the memory."""

    def __init__(self, width: int, depth: int):
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for stage in range(4):
            after = width * 2**stage
            for place in range(depth):
                stride = 2 if stage and not place else 1
                conv = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
                layers += [conv, nn.BatchNorm2d(after), nn.ReLU()]
                before = after
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(before, CLASSES)

    def forward(self, images, labels):
        return F.cross_entropy(self.head(self.body(images).mean((2, 3))), labels)


class Table(nn.Module):
    """Rows of numbers → the loss. Wide linear layers: the weights take most of the memory."""

    def __init__(self, width: int, depth: int, columns: int, dropout: float):
        super().__init__()
        sizes = [columns, *[width] * depth]
        self.body = nn.Sequential(*[layer for before, after in zip(sizes, sizes[1:])
                                    for layer in (nn.Linear(before, after), nn.ReLU(),
                                                  *([nn.Dropout(dropout)] if dropout else []))])
        self.head = nn.Linear(width, CLASSES)

    def forward(self, rows, labels):
        return F.cross_entropy(self.head(self.body(rows)), labels)


class Block(nn.Module):
    """A transformer's block: attention, then two linear layers with a GELU between them."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Text(nn.Module):
    """Tokens → the loss of the next ones. The last layer's weights are the embedding's (Press and Wolf 2017)."""

    def __init__(self, width: int, depth: int, vocabulary: int, length: int):
        super().__init__()
        self.register_buffer("places", torch.arange(length), persistent=False)  # in no state_dict, and on the device
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*[Block(width, width // 64) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens, following):
        logits = self.head(self.norm(self.blocks(self.embedding(tokens))))
        return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def make_network(options: dict, device: torch.device) -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """The network of a case, and a batch for it, both on the device."""
    rows, width, depth = options["batch"], options["width"], options["depth"]
    with torch.device(device):
        if options["network"] == "images":
            model = Images(width, depth)
            batch = torch.zeros(rows, 3, options["side"], options["side"]), torch.zeros(rows, dtype=torch.int64)
        elif options["network"] == "table":
            columns = options.get("columns", width)
            model = Table(width, depth, columns, options.get("dropout", 0.0))
            batch = torch.zeros(rows, columns), torch.zeros(rows, dtype=torch.int64)
        else:
            model = Text(width, depth, options["vocabulary"], options["side"])
            batch = torch.zeros(2, rows, options["side"], dtype=torch.int64).unbind()
            batch = batch[0].clone(), batch[1].clone()
    if options.get("half"):
        model = model.to(torch.bfloat16)
        if options["half"] == "all but the norms":
            for module in model.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.float()
        batch = tuple(each.to(torch.bfloat16) if each.is_floating_point() else each for each in batch)
    _freeze(model, options.get("trained", "all"))
    return model, batch


def _freeze(model: nn.Module, trained: str) -> None:
    """``trained``: "all"; "head"; "last half", of the body's or the blocks' layers, and what comes behind; "biases"."""
    body = list(model.blocks if hasattr(model, "blocks") else model.body)
    first = set() if trained != "last half" else {id(each) for layer in body[:len(body) // 2] for each in layer.parameters()}
    head = {id(each) for each in model.head.parameters()}
    for name, parameter in model.named_parameters():
        of_head = id(parameter) in head
        parameter.requires_grad_({"all": True, "head": of_head, "biases": name.endswith("bias"),
                                  "last half": id(parameter) not in first}[trained])


def make_optimizer(options: dict, model: nn.Module) -> torch.optim.Optimizer:
    """The case's optimizer, of all the network's parameters; it has taken no step yet."""
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[options["optimizer"]]
    parameters = list(model.parameters())
    if options.get("groups"):  # as in many training scripts
        biases = [each for each in parameters if each.dim() == 1]
        parameters = [{"params": biases, "weight_decay": 0.0}, {"params": [each for each in parameters if each.dim() > 1]}]
    return kind(parameters, lr=1e-3, **options.get("settings", {}))


EXACT = ("parameters", "buffers", "gradients")  # the other parts may be off by the exercise's tolerance
MODE = "the model's mode afterwards"
HOOKS, RATES = "hooks left on the model", "the optimizer's learning rates afterwards"
BEGUN, DONE = "begun", "done"


def ask_budget(function, given, device):
    """What ``function`` says that a training step of the network takes."""
    options = given.options
    _without_reserves(device)  # the network's own blocks lie in no segment that another case has left
    model, batch = make_network(options, device)
    optimizer = make_optimizer(options, model)
    if options.get("evaluating"):
        model.eval()
    dtype = getattr(torch, options["autocast"]) if options["autocast"] else None
    _without_reserves(device)
    yield
    given.note(BEGUN)
    said = function(model, batch, optimizer, dtype)
    given.note(DONE)
    yield
    if not isinstance(said, dict):
        raise Unusable(f"it returned a {type(said).__name__}, not a dict from the name of each of the six parts to its "
                       "bytes: is there a `return`?")
    modes = {module.training for module in model.modules()}
    return {**{name: _number(name, value) for name, value in said.items()}, HOOKS: hooks_on(model),
            RATES: [group["lr"] for group in optimizer.param_groups], **left_on(list(model.parameters())),
            MODE: "training" if modes == {True} else "evaluation" if modes == {False} else "mixed"}


def _without_reserves(device: torch.device) -> None:
    """A block that is only a little too large is handed out whole: what others have left would make a difference."""
    gc.collect(1)  # of the garbage the young: the old is gone since the first was asked
    torch.get_device_module(device).empty_cache()


def _number(name: str, value):
    """Raises Unusable where it is no number."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        raise Unusable(f"{name!r} is a tensor on the device. Return a number of bytes, such as `nbytes`.")
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unusable(f"{name!r} is a {type(value).__name__}, not a number of bytes.")
    return round(value) if name in EXACT else float(value)
