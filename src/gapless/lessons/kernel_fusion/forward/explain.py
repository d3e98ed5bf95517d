"""Lesson 07: why an answer to ``forward`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import alike
from ..judged import GRAPHS, NONE
from ..stage import DTYPE, LOSS


def forward(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The inputs' dtype is the result's: something on the way casts."
    if not alike(found[LOSS], wanted[LOSS]):
        return "Compare with the slow function line by line: the product, what it is divided by, which activation, the mean."
    if found.get(GRAPHS) == NONE:
        return "The device has seen no compiled graph: does something keep `torch.compile` out of it?"
    if found.get(GRAPHS) != wanted.get(GRAPHS):
        return (f"The values are right. Graphs that the device has seen: {found.get(GRAPHS)}. One is wanted, with all the "
                "work in it. `print(torch._dynamo.explain(forward)(x, weight))` names the line of each break.")
    return ("The number is right, and a gradient is not: through which of your lines does one pass where the slow "
            "function's "
            "line gave Python a number?")
