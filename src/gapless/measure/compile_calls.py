"""How often ``torch.compile`` is called."""

from __future__ import annotations

import torch


class CompileCalls:
    """Inside, ``count`` grows by one for each call of ``torch.compile``. A class: what ``contextlib`` does in Python counts
    as the work of a program around which it is done."""

    count = 0

    def __enter__(self) -> CompileCalls:
        self._original = torch.compile

        def compile(*args, **kwargs):
            self.count += 1
            return self._original(*args, **kwargs)

        torch.compile = compile
        return self

    def __exit__(self, *raised) -> None:
        torch.compile = self._original
