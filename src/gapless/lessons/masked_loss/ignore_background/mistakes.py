"""Lesson 02: the usual wrong versions of ``ignore_background``, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake
from ..stage import BACKGROUND, IGNORE

_ABOVE = "Classes above the background are replaced too, where there are any: compare with `==`."
_BELOW = "Every class below the background is replaced too: compare with `==`."
_ZERO = ("The background became 0, and 0 is a class: the pixel would be trained on. Put `IGNORE` there. (Multiplying by a "
         "mask gives 0.)")
BACKGROUND_MISTAKES = (
    Mistake(lambda target: target.clone(), (
        "The background is still there. Was a result thrown away? `masked_fill` and `torch.where` return a new tensor; only "
        "`masked_fill_`, with a `_`, writes into the old one.")),
    Mistake(lambda target: torch.where(target == BACKGROUND, target, IGNORE), (
        "The two sides are the wrong way round: `torch.where(condition, a, b)` takes `a` where the condition holds, and `b` "
        "elsewhere.")),
    Mistake(lambda target: torch.where(target >= BACKGROUND, IGNORE, target), _ABOVE),
    Mistake(lambda target: torch.where(target > BACKGROUND, IGNORE, target), _ABOVE + " And the background itself stays."),
    Mistake(lambda target: torch.where(target <= BACKGROUND, IGNORE, target), _BELOW),
    Mistake(lambda target: torch.where(target < BACKGROUND, IGNORE, target), _BELOW + " And the background itself stays."),
    Mistake(lambda target: torch.where(target == BACKGROUND, 0, target), _ZERO),
    Mistake(lambda target: torch.where(target == BACKGROUND, -100, target), (
        "-100 is what PyTorch ignores by default; in this lesson it is `IGNORE`, -1.")),
    Mistake(lambda target: torch.where(target == BACKGROUND, 1, target), "Put `IGNORE` in place of the background, not 1."),
    Mistake(lambda target: torch.where(target == IGNORE, BACKGROUND, target), (
        "What is ignored became background: it is the background that is to become `IGNORE`.")),
    Mistake(lambda target: torch.where((target == BACKGROUND) | (target == 0), IGNORE, target), (
        "Class 0 is replaced too. It is a class like any other.")),
    Mistake(lambda target: torch.where(target == BACKGROUND - 1, IGNORE, target), (
        "Class 8 is replaced: the background is `BACKGROUND`, 9. (Classes count from 0.)")),
    Mistake(lambda target: torch.where(target == BACKGROUND + 1, IGNORE, target), (
        "Class 10 is replaced: the background is `BACKGROUND`, 9. (`CLASSES` is how many there are.)")),
    Mistake(lambda target: torch.where(target == target.max(), IGNORE, target), (
        "The largest label is replaced, whatever it is. The background is the class `BACKGROUND`.")),
    Mistake(lambda target: target.clamp(max=BACKGROUND - 1), (
        "The background became class 8: `clamp` moves a value to the bound. Choose with `torch.where` instead.")),
    Mistake(lambda target: torch.full_like(target, IGNORE), "Every pixel is ignored now: only the background should be."),
    Mistake(lambda target: torch.where(target == BACKGROUND, target + IGNORE, target), (
        "`IGNORE` was added to the label: put it in the label's place.")),
    Mistake(lambda target: torch.where(target == BACKGROUND, -target, target), (
        "The label became -9: only `IGNORE`, -1, is left out of the loss.")),
)
