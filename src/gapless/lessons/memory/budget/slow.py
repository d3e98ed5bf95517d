"""Lesson 08: ``budget`` as handed out."""

from __future__ import annotations


def budget(model, batch, optimizer, dtype):
    """The bytes of each part of a training step. ``model(*batch)`` is the loss, under autocast to ``dtype`` (None:
    without). ``optimizer`` has all the model's parameters, and has taken no step yet."""
    parameters = sum(parameter.nbytes for parameter in model.state_dict().values())
    return {"parameters": parameters, "buffers": 0, "optimizer state": 2 * parameters, "gradients": parameters,
            "activations": 0, "peak": 4 * parameters}
