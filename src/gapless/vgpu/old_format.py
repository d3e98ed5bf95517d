"""``torch.save`` in the old file format, which has values after what is made of them: no place for the device's tensors."""

from __future__ import annotations

import functools
import threading

import torch

_old_format = threading.local()  # .depth: how many torch.save calls in the old file format are under way


def check(device: torch.device) -> None:
    """Raise NotImplementedError inside a torch.save in the old format: a tensor would go to ``device`` before it has its
    values."""
    if getattr(_old_format, "depth", 0):
        raise NotImplementedError(f"a tensor on {device} cannot be saved with _use_new_zipfile_serialization=False: leave "
                                  "that out, or save .cpu()")


def _noting(original):
    @functools.wraps(original)
    def legacy_save(*args, **kwargs):
        _old_format.depth = getattr(_old_format, "depth", 0) + 1
        try:
            return original(*args, **kwargs)
        finally:
            _old_format.depth -= 1

    return legacy_save


def install() -> None:
    """Let PyTorch's old save say that it is under way."""
    torch.serialization._legacy_save = _noting(torch.serialization._legacy_save)
