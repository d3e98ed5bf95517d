"""Lesson 03: the usual wrong versions of ``evaluate``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....course.mistakes import Mistake
from ..mistakes import CHOICES, FORMULAS, IGNORING, LEFT_IN, Averages, Pairs, averaged, counting


def _of_loader(average: Callable[[Pairs], Averages], choose=lambda output: output.argmax(1)) -> Callable:
    @torch.no_grad()
    def evaluate(model, loader, device):
        return average([(choose(model(images)), labels) for images, labels in loader])

    return evaluate


EVALUATE = (
    *(Mistake(_of_loader(lambda pairs, treat=treat: averaged(treat(pairs))), why) for treat, why in IGNORING),
    *(Mistake(_of_loader(average), why) for average, why in LEFT_IN),
    *(Mistake(_of_loader(lambda pairs, average=average: average(counting(pairs))), why) for average, why in FORMULAS),
    *(Mistake(_of_loader(lambda pairs: averaged(counting(pairs)), choose), why) for choose, why in CHOICES),
)
