"""The switches of PyTorch's by which a program decides which kernels a card runs, and its debug aids, as they are sent to a
device in another process."""

# mypy: disable-error-code="attr-defined, union-attr"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..core import tuning
from ..process.state import state

_DTYPES = ("float32", "float64", "float16", "bfloat16")
_PRECISIONS = ("none", "ieee", "tf32", "bf16")


def switches() -> list:
    """As they are now; the last is the default dtype."""
    # What torch.backends' properties ask too: this is done for each operator, and they take long.
    get = torch._C._get_fp32_precision_getter
    aids = state.aids
    return [get("cuda", "matmul"), get("cuda", "conv"), get("cuda", "rnn"), *tuning.switches(), aids.blocking, aids.profiled,
            aids.ranges, torch.get_default_dtype()]


def in_words(found: list) -> list:
    """What :func:`switches` gives, as plain JSON."""
    return [*found[:-1], str(found[-1]).removeprefix("torch.")]


def switch(wanted) -> None:
    """Switch as :func:`in_words` has it. Raises ValueError for anything else."""
    if not isinstance(wanted, list) or len(wanted) != 10:
        raise ValueError("unknown settings")
    matmul, conv, rnn, benchmark, limit, deterministic, *aids, dtype = wanted
    if (not all(each in _PRECISIONS for each in (matmul, conv, rnn)) or dtype not in _DTYPES
            or not all(type(each) is bool for each in (benchmark, deterministic, *aids))
            or type(limit) is not int or not 0 <= limit < 2**31):
        raise ValueError("unknown settings")
    backends = torch.backends
    for module, chosen in ((backends.cuda.matmul, matmul), (backends.cudnn.conv, conv), (backends.cudnn.rnn, rnn)):
        module.fp32_precision = chosen
    tuning.switch(benchmark, limit, deterministic)
    state.aids.switch(*aids)
    torch.set_default_dtype(getattr(torch, dtype))


@contextmanager
def switched(wanted: list | None) -> Iterator[None]:
    """Inside they are as ``wanted``, until something switches again (None: as they are); afterwards as before."""
    before = in_words(switches())
    try:
        if wanted is not None:
            switch(wanted)
        yield
    finally:
        switch(before)
