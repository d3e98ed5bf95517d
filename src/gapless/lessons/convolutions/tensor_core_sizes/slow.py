"""Lesson 05: ``tensor_core_sizes`` as handed out."""

from __future__ import annotations


def tensor_core_sizes(model):
    """The same network, with sizes that suit tensor cores: a Sequential of convolutions, norms, linear layers and others
    without weights, the last one a linear layer to the classes."""
    return model
