"""Lesson 06: the usual wrong ways to compute all heads at once, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ....course.evidence import Case
from ....course.mistakes import Mistake
from .stage import AGAIN, DTYPE, OF_WEIGHTS, OF_X, OUTPUTS


def _out(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    return torch.einsum("...hd,hdw->...hw", x, torch.stack(weights)).flatten(-2)


@dataclass(frozen=True)
class _Heads:
    """All heads of one size at once and a smaller last one by itself, with one part in another way. ``equal``: what is made
    of the heads of one size, from x and their weights; ``last``: of the last one; ``order``: how the two are put together;
    ``seen``: what is passed on of x and of a weight."""

    equal: Callable = lambda x, weights: _out(x.unflatten(-1, (len(weights), -1)), weights)
    last: Callable = torch.matmul
    order: int = 1
    of_x: Callable = lambda x: x
    of_weight: Callable = lambda weight: weight

    def __call__(self, x, weights):
        if not weights:
            return x.new_zeros(*x.shape[:-1], 0)
        x, weights = self.of_x(x), list(map(self.of_weight, weights))
        smaller = [weights.pop()] if weights[-1].shape != weights[0].shape else []
        count = sum(map(len, weights))
        parts = [self.equal(x[..., :count], weights)]
        parts += [self.last(x[..., count:], weight) for weight in smaller]
        return torch.cat(parts[::self.order], -1)


def _rows_first(x, weights):
    """The product of heads × rows × features, its dimensions not turned back."""
    parts = x.unflatten(-1, (len(weights), -1)).movedim(-2, 0)
    return (parts @ torch.stack(weights).view(len(weights), *[1] * max(0, x.dim() - 2), *weights[0].shape)
            ).reshape(*x.shape[:-1], -1) if x.dim() > 1 else _out(x.unflatten(-1, (len(weights), -1)), weights)


def _columns_dealt(x, weights):
    return _out(x.unflatten(-1, (-1, len(weights))).transpose(-1, -2), weights)


def _results_dealt(x, weights):
    return _out(x.unflatten(-1, (len(weights), -1)), weights).unflatten(-1, (len(weights), -1)).transpose(-1, -2).flatten(-2)


HEAD_MISTAKES = (
    Mistake(_Heads(equal=_rows_first), (
        "The product is heads × rows × widths, and you reshaped it as it is. So the rows of different heads end up side "
        "by side. Turn it to rows × heads × widths first (`transpose`, `movedim`), then `flatten(-2)`.")),
    Mistake(_Heads(equal=_columns_dealt), (
        "Head 0 has the *first* columns, not every n-th column. Split the columns as heads × features (`unflatten(-1, "
        "(heads, -1))`), not as features × heads.")),
    Mistake(_Heads(equal=_results_dealt), (
        "The results of the heads are interleaved. All of head 0 must come first, then all of head 1. Before "
        "`flatten(-2)` the dimensions must be heads × widths.")),
    Mistake(_Heads(equal=lambda x, weights: _out(x.unflatten(-1, (len(weights), -1)), weights[:1] * len(weights))), (
        "Every head is multiplied by the first head's weight. `expand` and broadcasting repeat one weight. "
        "`torch.stack` makes heads × features × widths of all.")),
    Mistake(_Heads(equal=lambda x, weights: x[..., :len(weights[0])] @ torch.cat(weights, 1)), (
        "Every head gets the first head's columns. That would be right if all heads read the same `x`. Here each has "
        "its own columns.")),
    Mistake(_Heads(order=-1), "The last head's results belong at the end, after those of the others."),
    Mistake(_Heads(equal=lambda x, weights: _out(x.unflatten(-1, (len(weights), -1)), weights[::-1])), (
        "The weights are in the wrong order: the first columns belong to the first weight.")),
    Mistake(_Heads(of_weight=torch.Tensor.detach), (
        "No gradient comes back to the weights. Did you join them under `no_grad`, or with `.data`, `detach()` or "
        "`torch.tensor`? `torch.stack` and `torch.cat` pass the gradients back.")),
    Mistake(_Heads(of_weight=lambda weight: weight.t() if weight.shape[0] == weight.shape[1] else weight), (
        "Square weights are transposed here. `x @ weight` takes each weight as it is, features × width.")),
    Mistake(_Heads(of_x=torch.Tensor.detach), "No gradient comes back to `x`: was it detached, or copied under `no_grad`?"),
    Mistake(_Heads(last=lambda x, weight: (x @ weight).detach()), (
        "No gradient comes back through the last head: write its result with `torch.cat`, not into a tensor under "
        "`no_grad`.")),
    Mistake(_Heads(last=lambda x, weight: x.new_zeros(*x.shape[:-1], weight.shape[1])), (
        "The smaller last head gives zeros: it has features and a weight too.")),
    Mistake(lambda x, weights: x @ torch.block_diag(*weights) if weights else x.new_zeros(*x.shape[:-1], 0), (
        "You use one large weight, zero outside its blocks. It multiplies every head's columns by every other head's "
        "zeros. So the work grows by the number of heads, and an infinite number in one head turns all into nan. Heads "
        "× features × widths holds only what is needed.")),
)


def explain_heads(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The result must have the dtype of `x` and of the weights: something on the way casts."
    sizes = [weight.shape for weight in case.inputs["weights"]]
    if found[OUTPUTS] != wanted[OUTPUTS]:
        largest = max((abs(number) for number in wanted[OUTPUTS] if np.isfinite(number)), default=0.0)
        if np.allclose(found[OUTPUTS], wanted[OUTPUTS], 0.0, 0.01 * largest, equal_nan=True):
            return "The result is close but not equal: something on the way computes in a lower precision."
        if len(set(sizes)) > 1:
            return "Here the last head is smaller than the others: does it get its own columns and its own weight?"
        return "The result is rows × heads × widths, with its last two dimensions flattened. Print the shapes on the way."
    if found[OF_X] != wanted[OF_X] or found[OF_WEIGHTS] != wanted[OF_WEIGHTS]:
        return "The outputs are right and a gradient is not. Does autograd see every operator on the way?"
    if AGAIN in wanted and found[AGAIN] != wanted[AGAIN]:
        return ("The first call is right. A second call gets the same weights with other values in them, as after an "
                "optimizer's step. Stack the weights in each call, and keep nothing from one call to the next.")
    return None
