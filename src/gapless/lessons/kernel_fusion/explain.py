"""Lesson 07: why an answer is wrong that no known mistake gives, in words."""

from __future__ import annotations

import numpy as np

from .compilations import COMPILATIONS, GRAPHS, NONE
from .compiled_cases import MANY
from .stage import DTYPE, LENGTHS, LOSS, LOSSES, OUTPUTS


def _alike(found, wanted) -> bool:
    """But for rounding."""
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-3, atol=1e-5, equal_nan=True)


def gain(case, found, wanted) -> str | None:
    """The bytes before, and what is left of them."""
    if not isinstance(found, (int, float)):
        return None
    before = sum(sum(part.values()) for kernel in case.options["kernels"] for part in kernel)
    return (f"These kernels move {before:,} bytes one after the other; fused they would move {before / wanted:,.0f}, and by "
            f"yours {before / found:,.0f}." if before and found else None)


def worth(case, found, wanted) -> str | None:
    """What is known of the case."""
    if not isinstance(found, (list, tuple)) or len(found) != 2:
        return "Two things are wanted: whether it pays, and from which step on (or None)."
    if found[0] == wanted[0] and (found[1] is None) != (wanted[1] is None):
        return "It is None where it never pays, and a number of steps where it pays at some time, be it too late."
    compiles = sum(compiled for _, compiled in case.options["compiled"])
    return f"Here {compiles} of {len(case.options['compiled'])} steps compiled, and {case.options['steps']:,} are to come."


def elementwise(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The input's dtype is the result's: something on the way casts."
    if _alike(found[OUTPUTS], wanted[OUTPUTS]):
        return "The outputs are right, and the gradient is not: is every part made of operators that autograd sees?"
    return "It is the same formula that is wanted, in fewer kernels."


def forward(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The inputs' dtype is the result's: something on the way casts."
    if not _alike(found[LOSS], wanted[LOSS]):
        return "Compare with the slow function line by line: the product, what it is divided by, which activation, the mean."
    if found.get(GRAPHS) == NONE:
        return "The device has seen no compiled graph: does something keep `torch.compile` out of it?"
    if found.get(GRAPHS) != wanted.get(GRAPHS):
        return (f"The values are right. Graphs that the device has seen: {found.get(GRAPHS)}. One is wanted, with all the "
                "work in it. `print(torch._dynamo.explain(forward)(x, weight))` names the line of each break.")
    return ("The number is right, and a gradient is not: through which of your lines does one pass where the slow "
            "function's "
            "line gave Python a number?")


def lengths(case, found, wanted) -> str | None:
    """Compilations, or the first thing that differs."""
    if found[LENGTHS] != wanted[LENGTHS]:
        return "The list is wanted with the length of each batch, in order, once."
    if not _alike(found[LOSSES], wanted[LOSSES]):
        return "Without a compiler it is `model(batch + place[:, None]).square().mean()`: compare batch by batch."
    if found[COMPILATIONS] == NONE:
        return "The device has seen no compiled graph: is what `step` calls made by `torch.compile`?"
    if found[COMPILATIONS] != wanted[COMPILATIONS]:
        return (f"The values are right. The device has seen graphs compiled for {MANY} lengths: {found[COMPILATIONS]}. At "
                "most two are wanted, and the model's products inside them. `TORCH_LOGS=recompiles` names the guard that "
                "failed each time.")
    return "The losses are right, and a gradient is not: is every part made of operators that autograd sees?"


def attention(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The inputs' dtype is the result's: something on the way casts."
    if not _alike(found[OUTPUTS], wanted[OUTPUTS]):
        return ("Try it on one query by hand: its scores, those that are forbidden at minus infinity, softmax, times the "
                "values.")
    return "What is attended to is right, and a gradient is not: is every part made of operators that autograd sees?"


def head_loss(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The inputs' dtype is the result's: something on the way casts."
    if not _alike(found[LOSS], wanted[LOSS]):
        return ("Compare your parts with the slow function's, one after the other: what is added, the norm, the loss of the "
                "logits.")
    return "The loss is right, and a gradient is not: is every part made of operators that autograd sees?"


def swish(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The input's dtype is the result's: something on the way casts."
    if not _alike(found[OUTPUTS], wanted[OUTPUTS]):
        return ("x · sigmoid(x), element by element, in both directions far from zero: exp(-x) is infinite for x of -1000, "
                "the result 0.")
    return ("The outputs are right and a derivative is not: `torch.autograd.gradcheck(swish, x)`, x of float64 with "
            "`requires_grad`, compares yours with differences.")
