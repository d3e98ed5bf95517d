"""``cuda`` means the virtual GPU: for programs that name no other device.

    >>> with as_cuda.install("a100"):
    ...     model = torch.nn.Linear(4, 4).cuda()                 # on vgpu:0
    ...     torch.cuda.is_available(), model.weight.is_cuda      # (True, True)

PyTorch makes no tensor of type ``cuda`` where no driver is, and a wrapper that claimed to be one would end the process in
its backward pass. So the tensors stay ``vgpu:0``, and two things are changed. What a program says: each function of PyTorch
that takes a device takes ``cuda`` for the virtual one (:mod:`.arguments`, :mod:`.mixed_precision`, :mod:`.files`,
:mod:`.cuda_module`, :mod:`.distributed`). What a program asks: its own lines, and libraries that were not told of the
virtual GPU, see ``cuda:0`` in ``tensor.device`` and True in ``torch.cuda.is_available()``; PyTorch itself and libraries
that know the virtual GPU see ``vgpu:0`` and False, as ever (:mod:`.asking`).

Not seen: a device that C++ writes out by itself, as in an error's text; ``x.device`` within a compiled function, which is
``vgpu:0``. Processes that the program starts by itself have no virtual GPU, except for ``torch.multiprocessing.spawn`` of
one for each card (:mod:`.spawned`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.jit import _builtins

from ..face.backend import enable
from ..hardware.cards.specs import Card
from . import accelerator, arguments, asking, cuda_module, distributed, files, lightning, mixed_precision, spawned
from .asking import Numbering

_NONE = object()


def _tell_torchscript(function) -> None:
    """It knows PyTorch's functions by identity, and forward-mode AD is made of scripts: a function that wraps one of them
    stands for it."""
    known = _builtins._get_builtin_table()
    wraps = function
    while wraps is not None and id(wraps) not in known:
        wraps = getattr(wraps, "__wrapped__", None)
    if wraps is not None and wraps is not function:
        _builtins._register_builtin(function, known[id(wraps)])


class Replaced:
    """Attributes of PyTorch that are replaced for a while, and how to undo it in the opposite order."""

    def __init__(self):
        self._before: list[tuple[object, str, object]] = []

    def put(self, owner, name: str, value) -> None:
        """``owner.name = value``; ``owner`` is a module or a class."""
        # Its own entry: what a class inherits is not put back as its own, and a staticmethod stays one.
        self._before.append((owner, name, vars(owner).get(name, _NONE)))
        setattr(owner, name, value)
        _tell_torchscript(value)

    def undo(self) -> None:
        """As it was before."""
        while self._before:
            owner, name, value = self._before.pop()
            _builtins._get_builtin_table().pop(id(vars(owner)[name]), None)  # another function may get its number
            if value is _NONE:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@contextmanager
def install(card: str | Card | None = None, index: int = 0, count: int = 1, on_cpu: bool = False) -> Iterator[torch.device]:
    """Inside, ``cuda`` is the virtual GPU, modelling ``card`` (None: the one in use); gives ``vgpu:0``.

    ``index``: the number by which this process's card is ``cuda``; ``count``: how many ``torch.cuda.device_count()`` tells
    of, as each process has one card whatever its rank. ``on_cpu``: `cuda` is the CPU instead, so that a program's own
    errors can be distinguished from the device's. Raises UnknownCard; ValueError unless 0 ≤ ``index`` < ``count``;
    RuntimeError where PyTorch finds a real GPU, or inside another ``install``.
    """
    if not 0 <= index < count:
        raise ValueError(f"index {index} is none of {count} devices")
    if asking.numbering is not None:
        raise RuntimeError("`cuda` is the virtual GPU already")
    if torch.cuda.is_available():
        raise RuntimeError("PyTorch finds a CUDA GPU here: `cuda` is that")
    device = enable(card)
    asking.numbering = Numbering(index, count, torch.device("cpu") if on_cpu else device)
    replaced = Replaced()
    try:
        for part in (asking, accelerator, arguments, mixed_precision, files, cuda_module, distributed, lightning, spawned):
            part.install(replaced)
        yield device
    finally:
        replaced.undo()
        asking.numbering = None
