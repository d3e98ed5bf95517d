"""Forked processes: the device is refused there, as CUDA is.

After a fork the child has the parent's Python objects; on CUDA they are of no use there, nor is a device that the parent has
begun with, and PyTorch refuses. Here values would be read and made as if nothing had happened, on clocks that nobody sees.
"""

from __future__ import annotations

import os

from .state import state

_only_prepares = False


def only_prepares() -> None:
    """This process has enabled the device, uses it for nothing, and forks those that do: they may."""
    global _only_prepares
    _only_prepares = True


def _after_fork() -> None:
    global _only_prepares
    state.forked, _only_prepares = not _only_prepares, False
    state.timeline.forget_due()


def refuse() -> None:
    """Raise RuntimeError: the device was enabled before this process was forked (torch/cuda/__init__.py, ``_lazy_init``)."""
    raise RuntimeError("Cannot re-initialize vgpu in forked subprocess. To use vgpu with multiprocessing, you must use the "
                       "'spawn' start method (for a DataLoader: multiprocessing_context='spawn')")


def install() -> None:
    """Watch for forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
