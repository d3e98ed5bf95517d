"""Lazy conjugates, negatives and zeros inside a dispatch in Python.

PyTorch leaves their keys out of its dispatch while it calls one (``Python`` comes below them). A kernel of the CPU's that
makes a lazy conjugate of its own would then not see the bit, and its values would be wrong.
"""

from __future__ import annotations

import torch

_KEYS = torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative, torch._C.DispatchKey.ZeroTensor
_is_excluded, _exclude = torch._C._dispatch_tls_is_dispatch_key_excluded, torch._C._dispatch_tls_set_dispatch_key_excluded


def see() -> bool:
    """From now on they are seen. Whether they were not: then :func:`unsee` before returning to PyTorch."""
    if not _is_excluded(_KEYS[0]):
        return False
    for key in _KEYS:
        _exclude(key, False)
    return True


def unsee() -> None:
    """As PyTorch had it."""
    for key in _KEYS:
        _exclude(key, True)
