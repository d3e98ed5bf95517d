"""Programs as others write them, on the virtual GPU against the CPU: ``make programs``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Program:
    """``run(device)`` returns name → tensor or number. ``needs``: the libraries it imports. ``mixed``: in mixed precision, where
    CPU and CUDA round other operators."""

    group: str
    name: str
    run: Callable
    needs: tuple[str, ...] = ()
    mixed: bool = False

    @property
    def missing(self) -> list[str]:
        """Libraries that are not installed."""
        return [each for each in self.needs if importlib.util.find_spec(each) is None]


PROGRAMS: dict[str, Program] = {}


def add(group: str, name: str, run: Callable, *needs: str, mixed: bool = False) -> None:
    """Put a program into the table."""
    assert f"{group}/{name}" not in PROGRAMS, name
    PROGRAMS[f"{group}/{name}"] = Program(group, name, run, needs, mixed)


def program(group: str, *needs: str, mixed: bool = False):
    """Decorator: the function is a program of that group, under its own name."""

    def register(function):
        add(group, function.__name__, function, *needs, mixed=mixed)
        return function

    return register


def train(model: nn.Module, device, batches, loss_of, optimizer=None, **kept) -> dict:
    """A step on each of the batches; the losses, the first step's gradients and the last parameters and buffers.

    ``batches``: tuples of CPU tensors; ``loss_of(model, *batch)``; ``optimizer``: a function of the parameters.
    """
    model.to(device).train()
    optimizer = (optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=0.01)))(model.parameters())
    found = dict(kept)
    for number, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = loss_of(model, *(tensor.to(device) for tensor in batch))
        loss.backward()
        found[f"loss {number}"] = loss.item()
        if number == 0:
            found |= {f"gradient of {name}": parameter.grad.clone() for name, parameter in model.named_parameters()
                      if parameter.grad is not None}
        optimizer.step()
    return found | {f"state {name}": value.clone() for name, value in model.state_dict().items()}
