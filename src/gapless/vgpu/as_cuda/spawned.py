"""``torch.multiprocessing.spawn``: a program that starts a process for each card goes on in this one, which has the card.

Every rank of :func:`gapless.on_gpus` runs the whole program, as each of torchrun's does. Where the program starts as many
processes as there are cards, this one is that of its own number.
"""

from __future__ import annotations

import functools
import sys

import torch
import torch.multiprocessing

from . import asking


class _Context:
    """What is over: as PyTorch's ``ProcessContext`` after the last ``join()``."""

    processes, error_files, sentinels = (), (), {}

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """True: all have ended."""
        return True

    def pids(self) -> list[int]:
        """None is left."""
        return []


def _called(plain):
    @functools.wraps(plain)
    def start_processes(fn, args=(), nprocs=1, join=True, *more, **options):
        index, count = asking.numbering.index, asking.numbering.count
        if nprocs != count:
            if count == 1:  # such as workers on the CPU
                return plain(fn, args, nprocs, join, *more, **options)
            raise RuntimeError(f"the program starts {nprocs} processes, a card each, and each of the {count} ranks here has "
                               f"one card already: as many ranks as it starts processes (gapless run --gpus {nprocs})")
        try:
            fn(index, *args)
        except SystemExit as error:
            if error.code not in (None, 0):
                raise
        return None if join else _Context()

    return start_processes


def install(replaced) -> None:
    """Go on in this process from now on."""
    # The package has a function of the module's name.
    module = sys.modules["torch.multiprocessing.spawn"]
    called = _called(module.start_processes)
    replaced.put(module, "start_processes", called)  # what spawn() calls
    replaced.put(torch.multiprocessing, "start_processes", called)
