"""Known wrong versions of an exercise's function, made again to recognise what a learner has done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations


@dataclass(frozen=True)
class Mistake:
    """``function``: a wrong version, called as the learner's is. ``why``: a sentence or two that name the cause and what to
    do instead; it stands behind a message that says where the answer is wrong."""

    function: Callable
    why: str


@dataclass(frozen=True)
class Way:
    """Option ``name`` of the function as ``value``, which is wrong; ``why`` in words. ``often``: so often that it comes
    together with others."""

    name: str
    value: object
    why: str
    often: bool = False


def versions(function: Callable, ways: tuple[Way, ...]) -> tuple[Mistake, ...]:
    """The function with one thing wrong, in the order given, and then with two of those that are frequent."""
    single = [Mistake(partial(function, **{way.name: way.value}), way.why) for way in ways]
    double = [Mistake(partial(function, **{one.name: one.value, other.name: other.value}),
                      one.why if one.why == other.why else f"Two things. {one.why} And: {other.why}")
              for one, other in combinations(ways, 2) if one.often and other.often and one.name != other.name]
    return (*single, *double)
