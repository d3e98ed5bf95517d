"""Lesson 06: ``clear_grads`` as handed out."""

from __future__ import annotations


def clear_grads(parameters):
    """Clears the gradients of the previous step."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.zero_()
