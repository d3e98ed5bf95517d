"""What float32 products, convolutions and recurrent layers compute in: float32, or TF32 where the program allows it."""

from __future__ import annotations

from contextlib import contextmanager

import torch

# Whether float32 may be TF32, of ("cuda", kind): torch.backends.cuda.matmul.fp32_precision asks this (the older
# ``allow_tf32`` flags set the same).
_precision = torch._C._get_fp32_precision_getter
# PyTorch's defaults.
_DEFAULTS = {"matmul": "none", "conv": "tf32", "rnn": "tf32"}
_obeyed = True  # the switches
_tuned = False  # convolutions, where they are not


@contextmanager
def default_precision(tuned: bool = False):
    """Inside, float32 is TF32 where PyTorch's defaults make it so, and convolutions are ``tuned`` or not, whatever the
    program has switched."""
    global _obeyed, _tuned
    before = _obeyed, _tuned
    _obeyed, _tuned = False, tuned
    try:
        yield
    finally:
        _obeyed, _tuned = before


def tunes(benchmark: bool) -> bool:
    """Whether convolutions are tuned, where the program's switch is ``benchmark``."""
    return benchmark if _obeyed else _tuned


def tries(limit: int, default: int) -> int:
    """How many plans are tried, where the program's switch says ``limit``."""
    return limit if _obeyed else default


def switches() -> tuple:
    """All that a program can switch and that kernels depend on, beside the operator's arguments."""
    return _obeyed, _precision("cuda", "matmul"), _precision("cuda", "conv"), _precision("cuda", "rnn")


def math_dtype(tensor: torch.Tensor, kind: str) -> str:
    """What a kernel of the ``kind`` matmul, conv or rnn computes in."""
    if tensor.dtype == torch.float32:
        return "tf32" if (_precision("cuda", kind) if _obeyed else _DEFAULTS[kind]) == "tf32" else "float32"
    return str(tensor.dtype).removeprefix("torch.")
