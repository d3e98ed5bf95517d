"""Lesson 00: ``train`` as handed out."""

from __future__ import annotations

import torch.nn.functional as F


def train(model, optimizer, batches, limit, every, log):
    """Train ``model`` on ``batches``, a list of (x, y) on the device, and log a line for each step.

    A line gives the step's loss, the mean so far, and how many losses were above ``limit``. ``log(text)`` takes a line.
    ``every``: after so many steps the host may wait.
    """
    total, high = 0.0, 0
    for number, (x, y) in enumerate(batches, start=1):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        if loss > limit:
            high += 1
        loss.backward()
        optimizer.step()
        total += loss.item()
        log(f"step {number}: loss {loss:.6f}, mean {total / number:.6f}, {high} above {limit}")


def train_without_if(model, optimizer, batches, limit, every, log):
    """The ``if`` takes the number that ``.item()`` has read anyway."""
    total, high = 0.0, 0
    for number, (x, y) in enumerate(batches, start=1):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        value = loss.item()
        if value > limit:
            high += 1
        total += value
        log(f"step {number}: loss {loss:.6f}, mean {total / number:.6f}, {high} above {limit}")


def train_with_one_read(model, optimizer, batches, limit, every, log):
    """The text takes it too."""
    total, high = 0.0, 0
    for number, (x, y) in enumerate(batches, start=1):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        value = loss.item()
        if value > limit:
            high += 1
        total += value
        log(f"step {number}: loss {value:.6f}, mean {total / number:.6f}, {high} above {limit}")
