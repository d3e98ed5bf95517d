"""Lesson 05: ``without_bias`` as handed out."""

from __future__ import annotations


def without_bias(model, images):
    """The model, without the biases of convolutions that a norm cancels."""
    return model
