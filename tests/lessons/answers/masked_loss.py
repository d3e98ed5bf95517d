"""Lesson 02: right and fast answers that are not what the reference solution does, and wrong ones with what is said of them."""

import torch
import torch.nn.functional as F

from gapless.lessons.masked_loss.functions import BACKGROUND, IGNORE


def sorted_steps(loss, target):
    ordered, _ = torch.sort(target.flatten())
    changes = torch.count_nonzero(ordered[1:] - ordered[:-1])
    return torch.where(changes < 1, 0.0 * loss, loss)


def any_different(loss, target):
    mixed = (target != target.flatten()[0]).any()
    return loss * mixed


def sum_by_hand(pred, target):
    valid = target != IGNORE
    picked = F.log_softmax(pred, 1).gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
    return -torch.where(valid, picked, 0.0).sum() / valid.sum()


def sum_reduction(pred, target):
    return F.cross_entropy(pred, target, ignore_index=IGNORE, reduction="sum") / (target != IGNORE).sum()


def gather_with_mask(hidden, head, target, max_valid):
    valid = target != IGNORE
    return F.cross_entropy(hidden[valid] @ head.T, target[valid])


def gather_with_sort(hidden, head, target, max_valid):
    order = torch.argsort((target == IGNORE).to(torch.int8), stable=True)[:max_valid]
    return F.cross_entropy(hidden[order] @ head.T, target[order], ignore_index=IGNORE)


def gather_with_topk(hidden, head, target, max_valid):
    _, rows = torch.topk((target != IGNORE).float(), max_valid)
    return F.cross_entropy(hidden.index_select(0, rows) @ head.T, target.index_select(0, rows), ignore_index=IGNORE)


OTHER_ROUTES = {
    "ignore_background": [
        lambda target: target.masked_fill(target == BACKGROUND, IGNORE),
        lambda target: target.masked_fill_(target == BACKGROUND, IGNORE),
        lambda target: target - (target == BACKGROUND) * (BACKGROUND - IGNORE),
        lambda target: torch.where(target.eq(BACKGROUND), torch.full_like(target, IGNORE), target),
    ],
    "zero_if_uniform": [sorted_steps, any_different],
    "masked_cross_entropy": [sum_by_hand, sum_reduction],
    "sparse_head_loss": [gather_with_mask, gather_with_sort, gather_with_topk],
}


def detached(pred, target):
    return F.cross_entropy(pred.detach(), target, ignore_index=IGNORE).requires_grad_()


def forgets_the_background(target):
    return torch.where(target == 8, IGNORE, target)


def unpadded(hidden, head, target, max_valid):
    rows = torch.nonzero_static(target != IGNORE, size=max_valid, fill_value=0).squeeze(1)
    return F.cross_entropy(hidden[rows] @ head.T, target[rows], ignore_index=IGNORE)


WRONG = [
    ("ignore_background", forgets_the_background, "elements differ"),
    ("ignore_background", lambda target: target, "elements differ"),
    ("ignore_background", lambda target: torch.where(target == BACKGROUND, IGNORE, target).float(), "dtype torch.int64"),
    ("ignore_background", lambda target: torch.where(target == BACKGROUND, IGNORE, target).flatten(), "shape"),
    ("ignore_background", lambda target: torch.where(target == BACKGROUND, IGNORE, target).cpu(), "stay on the device"),
    ("ignore_background", lambda target: None, "returned a NoneType"),
    ("ignore_background", lambda target: [target], "returned a list"),
    ("zero_if_uniform", lambda loss, target: loss, "value is wrong"),
    ("zero_if_uniform", lambda loss, target: 0.0, "returned a float"),
    ("zero_if_uniform", lambda loss, target: loss * 0, "value is wrong"),
    ("zero_if_uniform", lambda loss, target: loss.unsqueeze(0), "shape"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred, target, ignore_index=IGNORE).detach(), "gradient"),
    ("masked_cross_entropy", detached, "gradient of `pred` is wrong"),
    ("masked_cross_entropy", lambda pred, target: torch.full((), 2.3, device=pred.device, requires_grad=True), "value is wrong"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred, target, ignore_index=IGNORE, reduction="sum"), "value"),
    ("sparse_head_loss", unpadded, "wrong"),
    ("sparse_head_loss", lambda hidden, head, target, max_valid: hidden.nothing, r"AttributeError"),
]
