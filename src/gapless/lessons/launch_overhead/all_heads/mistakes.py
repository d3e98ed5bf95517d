"""Lesson 06: the usual wrong ways to compute all heads at once, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ....course.evidence import Case
from ....course.mistakes import Mistake
from .stage import DTYPE, OF_WEIGHTS, OF_X, OUTPUTS


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
        "The product is heads × rows × widths, and was reshaped as it is: the rows of different heads end up side by side. "
        "Turn it to rows × heads × widths first (`transpose`, `movedim`), then `flatten(-2)`.")),
    Mistake(_Heads(equal=_columns_dealt), (
        "Head 0 has the *first* columns, not every so-manieth: the columns divide as heads × features "
        "(`unflatten(-1, (heads, -1))`), not as features × heads.")),
    Mistake(_Heads(equal=_results_dealt), (
        "The results of the heads are dealt out in turn: first all of head 0 is wanted, then all of head 1. Before "
        "`flatten(-2)` the dimensions are heads × widths.")),
    Mistake(_Heads(equal=lambda x, weights: _out(x.unflatten(-1, (len(weights), -1)), weights[:1] * len(weights))), (
        "Every head is multiplied by the first head's weight: `expand` and broadcasting repeat one weight; `torch.stack` "
        "makes heads × features × widths of all.")),
    Mistake(_Heads(equal=lambda x, weights: x[..., :len(weights[0])] @ torch.cat(weights, 1)), (
        "Every head gets the first head's columns. That is right where all heads read the same `x`; here each has columns "
        "of its own.")),
    Mistake(_Heads(order=-1), "The last head's results belong at the end, behind those of the others."),
    Mistake(_Heads(equal=lambda x, weights: _out(x.unflatten(-1, (len(weights), -1)), weights[::-1])), (
        "The weights are in the wrong order: the first columns belong to the first weight.")),
    Mistake(_Heads(of_weight=torch.Tensor.detach), (
        "No gradient comes back to the weights: were they put together under `no_grad`, or by `.data`, `detach()` or "
        "`torch.tensor`? `torch.stack` and `torch.cat` lead the gradients back.")),
    Mistake(_Heads(of_weight=lambda weight: weight.t() if weight.shape[0] == weight.shape[1] else weight), (
        "Where a weight is square it is transposed: `x @ weight` takes it as it is, features × width.")),
    Mistake(_Heads(of_x=torch.Tensor.detach), "No gradient comes back to `x`: was it detached, or copied under `no_grad`?"),
    Mistake(_Heads(last=lambda x, weight: (x @ weight).detach()), (
        "No gradient comes back through the last head: write its result with `torch.cat`, not into a tensor under "
        "`no_grad`.")),
    Mistake(_Heads(last=lambda x, weight: x.new_zeros(*x.shape[:-1], weight.shape[1])), (
        "The smaller last head gives zeros: it has features and a weight too.")),
    Mistake(lambda x, weights: x @ torch.block_diag(*weights) if weights else x.new_zeros(*x.shape[:-1], 0), (
        "One large weight, zero but for its blocks, multiplies every head's columns by every other's zeros: as many times "
        "the work as there are heads, and an infinite number in one head makes nan of all. Heads × features × widths holds "
        "what is needed and nothing else.")),
)


def explain_heads(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The dtype of `x` and of the weights is the result's: something on the way casts."
    sizes = [weight.shape for weight in case.inputs["weights"]]
    if found[OUTPUTS] != wanted[OUTPUTS]:
        largest = max((abs(number) for number in wanted[OUTPUTS] if np.isfinite(number)), default=0.0)
        if np.allclose(found[OUTPUTS], wanted[OUTPUTS], 0.0, 0.01 * largest, equal_nan=True):
            return "It is near, and not equal: something on the way computes in a lower precision."
        if len(set(sizes)) > 1:
            return "Here the last head is smaller than the others: does it get its own columns and its own weight?"
        return "The result is rows × heads × widths, its last two dimensions flattened: print the shapes on the way."
    if found[OF_X] != wanted[OF_X] or found[OF_WEIGHTS] != wanted[OF_WEIGHTS]:
        return "The outputs are right and a gradient is not: is every part of the way made of operators that autograd sees?"
    return None
