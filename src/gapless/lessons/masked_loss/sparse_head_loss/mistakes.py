"""Lesson 02: the usual wrong versions of ``sparse_head_loss``, and what to say of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake
from ..stage import IGNORE


def _rows(target, max_valid, fill=0):
    return torch.nonzero_static(target != IGNORE, size=max_valid, fill_value=fill).squeeze(1)


def _filled(target, max_valid):
    return torch.arange(max_valid, device=target.device) >= (target != IGNORE).sum()


def _padded(hidden, head, target, max_valid, label):
    rows = _rows(target, max_valid)
    labels = torch.where(_filled(target, max_valid), label, target[rows])
    return F.cross_entropy(hidden[rows] @ head.T, labels, ignore_index=IGNORE)


def _last_counts_too(hidden, head, target, max_valid):
    rows = _rows(target, max_valid, target.shape[0] - 1)
    return F.cross_entropy(hidden[rows] @ head.T, target[rows], ignore_index=IGNORE)


def _by_max_valid(hidden, head, target, max_valid):
    valid = target != IGNORE
    return F.cross_entropy(hidden[valid] @ head.T, target[valid], reduction="sum") / max_valid


def _mean_of_zeros(hidden, head, target, max_valid):
    rows = _rows(target, max_valid)
    each = F.cross_entropy(hidden[rows] @ head.T, target[rows], ignore_index=IGNORE, reduction="none")
    return torch.where(_filled(target, max_valid), 0.0, each).mean()


def _one_less(hidden, head, target, max_valid):
    rows = torch.nonzero(target != IGNORE).squeeze(1)[:max_valid - 1]
    return F.cross_entropy(hidden[rows] @ head.T, target[rows])


def _other_pairs(hidden, head, target, max_valid):
    valid = target != IGNORE
    labels = target[valid]
    return F.cross_entropy(hidden[:labels.shape[0]] @ head.T, labels)


def _zero_rows(hidden, head, target, max_valid):
    valid = target != IGNORE
    more = max_valid - int(valid.sum())
    return F.cross_entropy(F.pad(hidden[valid], (0, 0, 0, more)) @ head.T, F.pad(target[valid], (0, more)))


def _largest(hidden, head, target, max_valid):
    rows = target.topk(max_valid).indices
    return F.cross_entropy(hidden[rows] @ head.T, target[rows].clamp(min=0))


def _sum_of_valid(hidden, head, target, max_valid):
    valid = target != IGNORE
    return F.cross_entropy(hidden[valid] @ head.T, target[valid], reduction="sum")


def _without_one(hidden, head, target, max_valid):
    rows = _rows(target, max_valid)
    labels = torch.where(torch.arange(max_valid, device=target.device) >= (target != IGNORE).sum() - 1, IGNORE, target[rows])
    return F.cross_entropy(hidden[rows] @ head.T, labels, ignore_index=IGNORE)


def _guarded(hidden, head, target, max_valid):
    valid = target != IGNORE
    each = F.cross_entropy(hidden[valid] @ head.T, target[valid], reduction="sum")
    return each / valid.sum().clamp(min=1)


_PADDING = ("A row that fills up the places after the last valid one counts as well: `fill_value` points to a row that may "
            "have a label of its own. Give those places the label `IGNORE`: they are the ones from `valid.sum()` on.")
HEAD_MISTAKES = (
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(
        hidden[_rows(target, max_valid)] @ head.T, target[_rows(target, max_valid)], ignore_index=IGNORE), _PADDING),
    Mistake(_last_counts_too, _PADDING),
    Mistake(lambda hidden, head, target, max_valid: _padded(hidden, head, target, max_valid, 0), (
        "The places that fill up are counted as class 0: give them the label `IGNORE`.")),
    Mistake(_by_max_valid, "It is divided by `max_valid`. The mean is over the rows that are valid, which may be fewer."),
    Mistake(_mean_of_zeros, "The padding is counted: divide by the number of rows that are valid."),
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(
        hidden[:max_valid] @ head.T, target[:max_valid], ignore_index=IGNORE), (
        "These are the first `max_valid` rows, valid or not. Find the valid ones: `nonzero_static`, a sort, or the mask.")),
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(hidden @ head.T, target.clamp(min=0)), (
        "Rows without a target count as class 0: leave them out.")),
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(
        hidden @ head.T, target, ignore_index=IGNORE, reduction="none").mean(), (
        "It is divided by the number of all rows. The mean is over those that are valid.")),
    Mistake(_sum_of_valid, "That is the sum; the mean over the valid rows is wanted."),
    Mistake(_one_less, "One valid row is missing: `max_valid` rows may all be valid, the last one too."),
    Mistake(_without_one, "One valid row is missing: the places from `valid.sum()` on are padding, and not the one before."),
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(hidden[target > 0] @ head.T, target[target > 0]), (
        "Rows with label 0 are left out. 0 is a label like any other: compare with `IGNORE`.")),
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(
        hidden @ head.T, torch.where(target == 0, IGNORE, target), ignore_index=IGNORE), (
        "Rows with label 0 are left out. 0 is a label like any other: compare with `IGNORE`.")),
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(
        (hidden * (target != IGNORE).unsqueeze(1)) @ head.T, target.clamp(min=0)), (
        "Rows without a target were set to 0, and are counted all the same: give them the label `IGNORE`.")),
    Mistake(_zero_rows, "The rows of zeros that fill up are counted, as class 0: give them the label `IGNORE`."),
    Mistake(_largest, "Of the rows chosen some have no target, and are counted as class 0: give them the label `IGNORE`."),
    Mistake(_other_pairs, "Rows and labels do not belong together: select both with the same positions."),
    Mistake(_guarded, "Where no row is valid, the mean is of no elements, and nan: do not guard the division."),
    Mistake(lambda hidden, head, target, max_valid: torch.nan_to_num(F.cross_entropy(
        hidden @ head.T, target, ignore_index=IGNORE)), (
        "Where no row is valid, the mean is of no elements, and nan: do not replace it.")),
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(
        hidden.detach() @ head.T, target, ignore_index=IGNORE), "No gradient arrives at `hidden`: leave `detach` out."),
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(
        hidden @ head.detach().T, target, ignore_index=IGNORE), "No gradient arrives at `head`: leave `detach` out."),
    Mistake(lambda hidden, head, target, max_valid: F.cross_entropy(
        (hidden @ head.T).softmax(1), target, ignore_index=IGNORE), (
        "`F.cross_entropy` takes logits and does the softmax itself: yours is done twice.")),
)
