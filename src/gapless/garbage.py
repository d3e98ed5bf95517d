"""When Python looks for garbage: never while memory is watched, as what lies about in cycles would go some time."""

from __future__ import annotations

import gc


class no_collection:
    """Inside, Python looks for no garbage by itself. A class: what ``contextlib`` does in Python counts as the work of a
    program around which it is done."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *raised) -> None:
        if self._was_on:
            gc.enable()


def set_aside() -> None:
    """Collect what is left in cycles. The first time in a process, all that is there (mostly what was imported) is set
    aside for good, so that later collections are fast."""
    gc.collect()
    if not gc.get_freeze_count():
        gc.freeze()
