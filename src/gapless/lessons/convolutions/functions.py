"""Lesson 05: the functions as handed out. Right, and slow."""

from __future__ import annotations


def without_bias(model, images):
    """The model, without those biases of convolutions that a norm takes out again."""
    return model
