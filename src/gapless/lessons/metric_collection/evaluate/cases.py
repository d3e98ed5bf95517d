"""Lesson 03: the inputs of ``evaluate``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ..cases import Batches, draw, evaluation, logits_and_labels, varied_in_all
from ..stage import IGNORE


def evaluation_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def ignoring(name: str, batches: Batches, options: dict | None = None, share: float = 0.25) -> Case:
        return evaluation(name, [(logits, np.where(rng.random(targets.shape) < share, IGNORE, targets))
                                  for logits, targets in batches], options)

    drawn, thousands = draw(rng), "thousands of images of one class"
    many, many_options = drawn.pop(thousands)
    plain, again = drawn.pop("three batches")[0], drawn.pop("a second call, on other batches")
    logits, targets = plain[0]
    seen = logits.argmax(-1)
    only = np.where(seen == seen[0], IGNORE, targets)  # one class is predicted for ignored images alone
    return [
        ignoring("a quarter ignored", plain),
        ignoring("a second call, on another loader", *again),
        ignoring("nothing ignored", plain, share=0.0),
        ignoring("nearly all ignored", plain, share=0.95),
        ignoring("everything ignored", plain, share=1.0),
        evaluation(thousands, many, many_options),
        evaluation(f"{thousands}, in float16", [(logits.astype(np.float16), targets) for logits, targets in many],
                   many_options),
        evaluation("a class is predicted for ignored images only", [(logits, only), plain[1]]),
        evaluation("one batch ignored", [plain[0], (plain[1][0], np.full_like(plain[1][1], IGNORE)), plain[2]]),
        *(ignoring(f"{name}, a quarter ignored", *given) for name, given in drawn.items()),
        ignoring("twelve batches, a quarter ignored", [logits_and_labels(rng, (5,)) for _ in range(12)]),
        *varied_in_all(rng, lambda name, batches: ignoring(f"{name}, a quarter ignored", batches)),
    ]
