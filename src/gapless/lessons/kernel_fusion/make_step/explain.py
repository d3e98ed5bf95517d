"""Lesson 07: why an answer to ``make_step`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import alike
from ..judged import COMPILATIONS, NONE
from .stage import AGAIN, LENGTHS, LOSSES, MODE, OF_BATCHES, STALE


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
    if found[MODE]:
        return ("Afterwards the model is in another mode (`model.train()`, `model.eval()`). Its caller chooses the mode, so "
                "leave it as it is.")
    if not alike(found[LOSSES], wanted[LOSSES]):
        same = [alike(*each) for each in zip(found[LOSSES], wanted[LOSSES])]
        if same == [place < len(same) // 2 for place in range(len(same))]:
            return ("The losses are right until the weights change, as in an optimizer's step. Use the model's own weights "
                    "in each call, not a copy.")
        return "Without a compiler it is `model(batch + place[:, None]).square().mean()`: compare batch by batch."
    if found[COMPILATIONS] == NONE:
        return ("The device has seen no compiled graph. Does `step` call what `torch.compile` returned? And does the "
                "backend compile? `backend=\"eager\"` does not.")
    if found[COMPILATIONS] != wanted[COMPILATIONS]:
        count = len({batch.shape[1] for batch in case.inputs["batches"]})
        return (f"The values are right. The device has seen graphs compiled for {count} lengths: {found[COMPILATIONS]}. "
                "There should be at most two, with the model's products inside them. "
                "`torch._logging.set_logs(recompiles=True)` before the check prints the guard that failed each time.")
    if OF_BATCHES in wanted and not alike(found[OF_BATCHES], wanted[OF_BATCHES]):
        return ("These batches require a gradient, as if an earlier layer made them, and do not get the right one. Does "
                "something cut them off, such as `.detach()` or `requires_grad_(False)`?")
    return "The losses are right, but a gradient is not. Does autograd see every operator?"
