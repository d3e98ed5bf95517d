"""Lesson 06: the functions as handed out. They run, and each does with Python what one kernel could do."""

from __future__ import annotations

import torch


def clear_grads(parameters):
    """The gradients of the step before are gone."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.zero_()


@torch.no_grad()
def update_average(averages, parameters, decay):
    """Each average, in place: ``decay`` of what it was, and the rest of what its parameter is. Both may be of any dtype with
    a fraction; ``parameters`` may be an iterator."""
    for average, parameter in zip(averages, parameters):
        average.mul_(decay).add_(parameter, alpha=1 - decay)


@torch.no_grad()
def clip(parameters, max_norm):
    """Scales all gradients by one factor, at most 1, such that their norm together is at most ``max_norm``; the norm that
    they had. As ``torch.nn.utils.clip_grad_norm_`` has it."""
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = sum(grad.norm().item() ** 2 for grad in grads) ** 0.5
    factor = max_norm / (norm + 1e-6)
    for grad in grads:
        grad.mul_(1.0 if factor > 1.0 else factor)
    return norm


def make_optimizer(parameters):
    """AdamW at a rate of 0.001: matrices decay by 0.1, what has at most one dimension (biases, norms) does not."""
    groups = []
    for parameter in parameters:
        groups.append({"params": [parameter], "weight_decay": 0.1 if parameter.dim() > 1 else 0.0})
    return torch.optim.AdamW(groups, lr=1e-3)


def all_heads(x, weights):
    """``x`` (… × features), head by head: each head takes the next columns, as many as its weight has rows, times that
    weight. The results side by side, … × all widths. All heads are as large as the first; the last may be smaller."""
    parts, start = [x.new_zeros(*x.shape[:-1], 0)], 0
    for weight in weights:
        parts.append(x[..., start:start + len(weight)] @ weight)
        start += len(weight)
    return torch.cat(parts, -1)


def training_without_debugging(training):
    """The names of those of ``training.aids`` to turn off: what makes a step at least 10 % longer, and is not needed for
    the log. ``training.run(on)`` trains with the aids ``on``: its ``step_ms``, the time of each step, and its ``log``."""
    before = training.run(training.aids)
    off = []
    for aid in training.aids:
        without = training.run([other for other in training.aids if other != aid])
        if without.step_ms[0] < 0.9 * before.step_ms[0]:
            off.append(aid)
    return off


def capture_step(model, optimizer, loss_function):
    """A function ``step(x, y)`` that trains with one batch and returns its loss, a tensor or a number. It is called for
    every batch of a training; the first five calls may take their time. ``optimizer``: a fused Adam, with a scheduler that
    changes its learning rate after each step."""
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
