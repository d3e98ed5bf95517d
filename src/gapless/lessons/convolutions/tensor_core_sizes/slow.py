"""Lesson 05: ``tensor_core_sizes`` as handed out."""

from __future__ import annotations


def tensor_core_sizes(model):
    """The same network, with sizes that suit tensor cores. It is a Sequential of convolutions, norms, linear layers
    and layers without weights; the last layer is linear and outputs the classes."""
    return model
