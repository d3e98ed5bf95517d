"""Lesson 08: a network for sequences, and how the exercises are called that train it in parts, or within the backward pass.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ...course.plain import Unusable
from .given_weights import sampled, with_weights

IGNORED = -100  # a label that is not to be predicted
LOSS, LOSSES, STEPS, CHANGES, REFUSED = "loss", "losses", "steps of the optimizer", "changes of the weights", "refused"


class TokenNetwork(nn.Module):
    """Tokens N×T → logits N×T×``words``. The head's weight is the embedding's; ``extra`` is used where a forward pass asks
    for it."""

    def __init__(self, words: int, width: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.extra = nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens, extra: bool = False):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.head(self.norm(x + self.extra(x) if extra else x))


def _network(given, device: torch.device) -> TokenNetwork:
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


# -- a batch in parts --------------------------------------------------------------------------------


def ask_accumulate(function, given, device):
    """The losses of some steps, how many steps the optimizer took, and what has become of the weights. A ValueError is an
    answer too."""
    options = given.options
    model = _network(given, device)
    before = [sampled(parameter).clone() for parameter in model.parameters()]
    optimizer = make_optimizer(options["optimizer"], [each for each in model.parameters() if each.requires_grad])
    steps: list[int] = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    if options["earlier_gradients"]:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
    refused, losses = False, []
    yield
    for tokens, labels in zip(given.inputs["tokens"], given.inputs["labels"]):
        try:
            losses.append(function(model, optimizer, tokens, labels, options["parts"]))
        except ValueError:
            if not options["bad"]:
                raise
            refused = True
    optimizer.zero_grad()  # before the memory is looked at
    yield
    for loss in losses:
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise Unusable(f"it returned a {type(loss).__name__}; the mean loss, a tensor with one element, is wanted: is "
                           "there a `return`?")
    return {REFUSED: refused, STEPS: len(steps), LOSSES: [loss.detach().flatten() for loss in losses],
            CHANGES: [sampled(parameter) - old for parameter, old in zip(model.parameters(), before)]}


# -- the optimizer's step within the backward pass ---------------------------------------------------


def ask_optimizer_in_backward(function, given, device):
    """What has become of the weights after some steps, the learning rate lowered in between. A ValueError is an answer
    too."""
    options = given.options
    model = _network(given, device)
    before = [sampled(parameter).clone() for parameter in model.parameters()]
    batches = list(zip(given.inputs["tokens"], given.inputs["labels"]))
    limit = {} if options["max_norm"] is None else {"max_norm": options["max_norm"]}
    refused, losses = False, []
    yield
    try:
        train, optimizers = _checked(function(
            model, lambda parameters: make_optimizer(options["optimizer"], parameters), **limit))
        for number, (tokens, labels) in enumerate(batches):
            if number == options["lowered"]:
                for group in [group for optimizer in optimizers for group in optimizer.param_groups]:
                    group["lr"] *= 0.1
            outputs = model(tokens, extra=number in options["extra"])
            loss = F.cross_entropy(outputs.flatten(0, 1), labels.flatten())
            del outputs
            losses.append(loss.detach())
            train(loss)
            del loss
        # Hooks, optimizers and parameters refer to each other in a circle, which nobody takes apart for a while.
        for optimizer in optimizers:
            optimizer.state.clear()
        for parameter in model.parameters():
            (parameter._post_accumulate_grad_hooks or {}).clear()
    except ValueError:
        if not options["bad"]:
            raise
        refused = True
    yield
    return {REFUSED: refused, LOSSES: losses,
            CHANGES: {name: sampled(parameter) - old for (name, parameter), old in zip(model.named_parameters(), before)}}


def _checked(returned) -> tuple:
    """Raises Unusable where it is not a function and a list of optimizers."""
    if (not isinstance(returned, tuple) or len(returned) != 2 or not callable(returned[0])
            or not isinstance(returned[1], (list, tuple))
            or not all(isinstance(each, torch.optim.Optimizer) for each in returned[1])):
        raise Unusable("`(train, optimizers)` is wanted, a function of the loss and the list of the optimizers.")
    return returned
