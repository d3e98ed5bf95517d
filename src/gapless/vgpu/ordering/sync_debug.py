"""``torch.vgpu.set_sync_debug_mode``: a warning or an error at each operator that waits, as on CUDA.

There (``c10/cuda/CUDAFunctions.h``) ``memcpy_and_sync`` and ``stream_synchronize`` ask the mode, by which operators wait.
The device's and an event's ``synchronize``, and a copy from pageable memory with ``non_blocking=True``, do not ask it.
"""

from __future__ import annotations

import warnings

from ..hardware.clock.timeline import Wait
from ..process.state import state

MODES = {"default": 0, "warn": 1, "error": 2}
MESSAGE = "called a synchronizing CUDA operation"

_mode = 0


def _tell(wait: Wait) -> None:
    if _mode and wait.name == "cudaStreamSynchronize":
        where = f" ({wait.op or wait.name}{f', {wait.location}' if wait.location else ''})"
        if _mode == MODES["error"]:
            raise RuntimeError(MESSAGE + where)
        warnings.warn(MESSAGE + where, stacklevel=2)


def mode() -> int:
    """0, 1 or 2."""
    return _mode


def set_mode(wanted: int | str) -> None:
    """Raises RuntimeError for what is no mode."""
    global _mode
    number = MODES.get(wanted) if isinstance(wanted, str) else wanted
    if number not in MODES.values():
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
    _mode = number
    listen()


def listen() -> None:
    """Hear of the waits of the timeline in use, while there is a mode."""
    hooks = state.timeline.wait_hooks
    if _tell in hooks:
        hooks.remove(_tell)
    if _mode:
        hooks.append(_tell)
