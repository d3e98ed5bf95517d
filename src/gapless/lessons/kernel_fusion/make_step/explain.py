"""Lesson 07: why an answer to ``make_step`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import alike
from ..judged import COMPILATIONS, NONE
from .cases import MANY
from .stage import AGAIN, ANEW, LENGTHS, LOSSES


def lengths(case, found, wanted) -> str | None:
    """Compilations, or the first thing that differs."""
    if found[LENGTHS] != wanted[LENGTHS]:
        return "The list is wanted with the length of each batch, in order: one that comes again is there again."
    if found[ANEW]:
        return ("A second call of `make_step` returns the same list, or one that has lengths already: make a new list in "
                "each call.")
    if found[AGAIN]:
        return ("`torch.compile` is called again in later batches. Each call makes a function of its own, whose graphs are "
                "looked up anew: call it once, in `make_step`, and keep what it returns.")
    if not alike(found[LOSSES], wanted[LOSSES]):
        return "Without a compiler it is `model(batch + place[:, None]).square().mean()`: compare batch by batch."
    if found[COMPILATIONS] == NONE:
        return "The device has seen no compiled graph: is what `step` calls made by `torch.compile`?"
    if found[COMPILATIONS] != wanted[COMPILATIONS]:
        return (f"The values are right. The device has seen graphs compiled for {MANY} lengths: {found[COMPILATIONS]}. At "
                "most two are wanted, and the model's products inside them. `torch._logging.set_logs(recompiles=True)` "
                "before the check prints the guard that failed each time.")
    return "The losses are right, and a gradient is not: is every part made of operators that autograd sees?"
