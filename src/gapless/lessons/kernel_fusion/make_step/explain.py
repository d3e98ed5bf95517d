"""Lesson 07: why an answer to ``make_step`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import alike
from ..judged import COMPILATIONS, NONE
from .cases import MANY
from .stage import AGAIN, LENGTHS, LOSSES, STALE


def lengths(case, found, wanted) -> str | None:
    """Compilations, or the first thing that differs."""
    if found[LENGTHS] != wanted[LENGTHS]:
        return "The list must hold the length of each batch, in order, and repeated lengths too."
    if found[STALE]:
        return ("A second call of `make_step` returns the same list, or one that already has lengths. Make a new list in "
                "each call.")
    if found[AGAIN]:
        return ("You call `torch.compile` again in later batches. Each call makes a new function, whose graphs have to "
                "be looked up again. Call it once, in `make_step`, and keep what it returns.")
    if not alike(found[LOSSES], wanted[LOSSES]):
        return "Without a compiler it is `model(batch + place[:, None]).square().mean()`: compare batch by batch."
    if found[COMPILATIONS] == NONE:
        return "The device has seen no compiled graph. Does `step` call what `torch.compile` returned?"
    if found[COMPILATIONS] != wanted[COMPILATIONS]:
        return (f"The values are right. The device has seen graphs compiled for {MANY} lengths: {found[COMPILATIONS]}. "
                "There should be at most two, with the model's products inside them. "
                "`torch._logging.set_logs(recompiles=True)` before the check prints the guard that failed each time.")
    return "The losses are right, but a gradient is not. Does autograd see every operator?"
