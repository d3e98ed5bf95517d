"""Lesson 08: ``optimizer_in_backward`` as handed out."""

from __future__ import annotations

from torch import nn


def optimizer_in_backward(model, make_optimizer, max_norm=None):
    """Returns ``train(loss)``, which takes a training step, and the list of the optimizers.
    ``make_optimizer(parameters)`` makes one; ``max_norm`` limits the total norm of all gradients."""
    params = [param for param in model.parameters() if param.requires_grad]
    if not params:
        raise ValueError("no parameter of the model requires a gradient: there is nothing to train")
    optimizer = make_optimizer(params)

    def train(loss):
        loss.backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(params, max_norm)
        optimizer.step()
        optimizer.zero_grad()

    return train, [optimizer]
