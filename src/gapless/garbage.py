"""When Python looks for garbage: never while memory is watched, as what lies about in cycles would go some time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class no_collection:
    """Inside, Python looks for no garbage by itself. A class: what ``contextlib`` does in Python counts as the work of a
    program around which it is done."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *raised) -> None:
        if self._was_on:
            gc.enable()


@contextmanager
def set_aside() -> Iterator[None]:
    """What others have left in cycles is gone. What is there now is not looked through again inside: it is all that has been
    imported, and to collect garbage once more takes no time."""
    gc.collect()
    if gc.get_freeze_count():  # a process that was forked from one that had imported everything
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
