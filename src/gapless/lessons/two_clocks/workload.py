"""Lesson 00: the programs that are timed and trained."""

from __future__ import annotations

import bisect
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from ...vgpu import Card
from .stage import card_for, kernels_s

WIDTH = 1024
STEP_S = 0.39e-3  # of the device in a training step: what the host needs for one, with its Python
ITERATIONS, EVERY = 30, 15  # of one call of `train` in the table of the lesson's end
CHECKED, CHECKED_EVERY = 12, 6  # and where it is checked at full size: shorter, as each check makes many calls
LEARNING_RATE = 0.01
LIMIT = 3.0  # of most trainings, small and large
SMALL = 16  # elements of a kernel that is as short as a kernel can be


def _small_kernels(device: torch.device, size: int, *_: int) -> Callable[[], object]:
    x = torch.empty(SMALL, device=device)

    def step():
        y = x
        for _ in range(size):
            y = y + 1
        return y

    return step


def long_kernels(device: torch.device, size: int, *_: int) -> Callable[[], object]:
    a = torch.empty(size, size, device=device)

    def step():
        return (a @ a) @ a

    return step


def _both(device: torch.device, size: int, *_: int) -> Callable[[], object]:
    """Host and device have about as much to do: a stopwatch that makes them take turns shows it."""
    small, a = _small_kernels(device, 40), torch.empty(size, size, device=device)

    def step():
        small()
        return a @ a

    return step


def _reads_back(device: torch.device, size: int, *_: int) -> Callable[[], object]:
    small = _small_kernels(device, size)
    return lambda: small()[0].item()


def _uneven(device: torch.device, size: int, warmup: int, steps: int) -> Callable[[], object]:
    """The first ``warmup`` steps have nine times the work, as when kernels are tried out or compiled; and so has the last of
    each run of ``steps``, as one that saves a checkpoint."""
    a, done = torch.empty(size, size, device=device), 0

    def step():
        nonlocal done
        done += 1
        for _ in range(9 if done <= warmup or (done - warmup) % steps == 0 else 1):
            a @ a

    return step


PROGRAMS: dict[str, Callable] = {"small": _small_kernels, "long": long_kernels, "both": _both, "reads back": _reads_back,
                                 "uneven": _uneven}


def make_network(layers: int = 1, width: int = WIDTH) -> nn.Sequential:
    """``layers`` times a linear layer of ``width`` and a ReLU, then a linear layer to one number."""
    stack: list[nn.Module] = []
    for _ in range(layers):
        stack += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*stack, nn.Linear(width, 1))


DEEP_LAYERS, DEEP_ROWS = 20, 6144


def deep_step(device: torch.device) -> Callable[[], None]:
    """A training step that keeps the device busy for long and the host for a short time: 20 layers, batch 6144.

    Nothing in it waits. On the virtual GPU call it inside ``full_size``.
    """
    model = make_network(DEEP_LAYERS).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, y = torch.randn(DEEP_ROWS, WIDTH, device=device), torch.randn(DEEP_ROWS, 1, device=device)

    def step():
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()

    return step


def step_s(card: Card, rows: int, width: int = WIDTH) -> float:
    """About how long a training step of ``make_network(1, width)`` keeps the virtual ``card`` busy, in seconds."""
    hidden, weights, shorts = (rows, width), (width, width), 7
    parameters = [weights, (width,), (1, width), (1,)]
    return shorts * card.kernel_floor_ns / 1e9 + sum(kernels_s(card, operator, *shapes) for operator, *shapes in (
        ("mm", hidden, weights), ("relu", hidden), ("mm", hidden, (width, 1)),  # forward
        ("mm", (rows, 1), (1, width)), ("mm", (1, rows), hidden), ("add", hidden, hidden),  # backward; relu's reads two
        ("mm", (width, rows), hidden), ("_foreach_add_", parameters, parameters)))  # the weights' gradient; the update


def rows_for(device: torch.device) -> int:
    """The batch that keeps the device about as busy as the host, so that neither has much more to do and waiting costs a
    good deal."""
    card, sizes = card_for(device), range(64, 2**16, 64)
    return sizes[bisect.bisect_left(sizes, STEP_S, key=lambda rows: step_s(card, rows))]


def training_run(function: Callable, device: torch.device, iterations: int = ITERATIONS, every: int = EVERY
                 ) -> Callable[[], None]:
    """A function without arguments that calls ``function`` (``train`` or another like it) for ``iterations`` steps.

    On the virtual GPU call it inside ``full_size``: the losses then read as zeros.
    """
    rows = rows_for(device)
    model = make_network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, y = torch.randn(rows, WIDTH, device=device), torch.randn(rows, 1, device=device)

    def step():
        function(model, optimizer, [(x, y)] * iterations, LIMIT, every, lambda text: None)

    return step
