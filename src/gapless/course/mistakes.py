"""Known wrong versions of an exercise's function, made again to recognise what a learner has done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """``function``: a wrong version, called as the learner's is. ``why``: a sentence or two that name the cause and what to
    do instead; it stands behind a message that says where the answer is wrong."""

    function: Callable
    why: str
