"""The checks of an exercise that no number measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..check import Check, Found, Look
from ..truth import ONE_AT_A_TIME


@dataclass(frozen=True)
class InItsOwnWay(Check):
    """``function(look)``: by ``name``, what it finds of this check and of others that share it."""

    name: str  # type: ignore[misc]  # of each its own
    function: Callable[..., dict[str, Found]]

    def judge(self, look: Look) -> Found:
        """What the function finds, asked once for all the checks that share it."""
        if self.name not in look.found:
            with ONE_AT_A_TIME:
                look.found.update(self.function(look))
        return look.found[self.name]
