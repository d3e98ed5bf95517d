"""Lesson 03: the usual wrong versions of ``collect``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable

from ....course.mistakes import Mistake
from ..mistakes import CHOICES, FORMULAS, Averages, Pairs, averaged


def _of_lists(average: Callable[[Pairs], Averages], choose=lambda output: output.argmax(1)) -> Callable:
    def collect(outputs, targets):
        return average([(choose(output), target) for output, target in zip(outputs, targets)])

    return collect


COLLECT = (*(Mistake(_of_lists(average), why) for average, why in FORMULAS),
           *(Mistake(_of_lists(averaged, choose), why) for choose, why in CHOICES))
