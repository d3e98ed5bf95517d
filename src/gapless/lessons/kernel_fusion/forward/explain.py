"""Lesson 07: why an answer to ``forward`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import alike, of_digits
from ..judged import GRAPHS, NONE
from ..stage import DTYPE, LOSS


def forward(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The result must have the inputs' dtype: something on the way casts."
    if not alike(found[LOSS], wanted[LOSS]):
        return "Compare with the slow function line by line: the product, the divisor, the activation, the mean."
    if found.get(GRAPHS) == NONE:
        return "The device has seen no compiled graph. Does something keep `torch.compile` out of it?"
    if found.get(GRAPHS) != wanted.get(GRAPHS):
        return (f"The values are right. Graphs that the device has seen: {found.get(GRAPHS)}. There should be one, with "
                "all the work in it. `print(torch._dynamo.explain(forward)(x, weight))` names the line of each break.")
    return of_digits(found, wanted) or (
        "The number is right, but a gradient is not. Which of your lines passes a gradient where the slow function gave "
        "Python a number?")
