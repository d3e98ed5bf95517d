"""Lesson 02: right and fast answers that are not what the reference solution does, and wrong ones with what is said of them."""

import torch
import torch.nn.functional as F

from gapless.lessons.masked_loss.stage import BACKGROUND, CLASSES, IGNORE


def sorted_steps(loss, target):
    ordered, _ = torch.sort(target.flatten())
    changes = torch.count_nonzero(ordered[1:] - ordered[:-1])
    return torch.where(changes < 1, 0.0 * loss, loss)


def any_different(loss, target):
    mixed = (target != target.flatten()[0]).any()
    return loss * mixed


def by_a_table(target):
    table = torch.arange(IGNORE, CLASSES, device=target.device)
    return torch.where(table == BACKGROUND, IGNORE, table)[target - IGNORE]


def counted_by_scatter(loss, target):
    places = target.flatten() - IGNORE
    counts = torch.zeros(CLASSES - IGNORE, dtype=torch.int64, device=target.device).scatter_add_(0, places, torch.ones_like(places))
    return torch.where((counts > 0).sum() < 2, 0.0 * loss, loss)


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
        lambda target: torch.where(target >= BACKGROUND, IGNORE, target),
        by_a_table,
    ],
    "zero_if_uniform": [sorted_steps, any_different, counted_by_scatter],
    "masked_cross_entropy": [sum_by_hand, sum_reduction],
    "sparse_head_loss": [gather_with_mask, gather_with_sort, gather_with_topk],
}


def detached(pred, target):
    return F.cross_entropy(pred.detach(), target, ignore_index=IGNORE).requires_grad_()


def forgets_the_background(target):
    return torch.where(target == 8, IGNORE, target)


def into_a_reshaped_copy(target):
    flat = target.reshape(-1)
    flat.masked_fill_(flat == BACKGROUND, IGNORE)
    return target


def unpadded(hidden, head, target, max_valid):
    rows = torch.nonzero_static(target != IGNORE, size=max_valid, fill_value=0).squeeze(1)
    return F.cross_entropy(hidden[rows] @ head.T, target[rows], ignore_index=IGNORE)


def ignored_ones_chosen(hidden, head, target, max_valid):
    labels, rows = target.sort()
    return F.cross_entropy(hidden[rows[:max_valid]] @ head.T, labels[:max_valid], ignore_index=IGNORE)


def each_image_alone(loss, target):
    flat = target.flatten(1)
    return torch.where((flat.min(1).values == flat.max(1).values).all(), 0.0 * loss, loss)


def ignored_counted_as_class_zero(loss, target):
    labels = target.flatten().clamp(min=0)
    counts = torch.zeros(CLASSES, dtype=torch.int64, device=target.device).scatter_add_(0, labels, torch.ones_like(labels))
    return torch.where((counts > 0).sum() < 2, 0.0 * loss, loss)


def any_image_alone(loss, target):
    flat = target.flatten(1)
    return torch.where((flat.amin(1) == flat.amax(1)).any(), 0.0 * loss, loss)


def by_the_losses_above_zero(pred, target):
    each = F.cross_entropy(pred, target, ignore_index=IGNORE, reduction="none")
    return each.sum() / (each > 0).sum()


def by_the_width(hidden, head, target, max_valid):
    valid = target != IGNORE
    return F.cross_entropy(hidden[valid] @ head.T, target[valid], reduction="sum") / hidden.shape[1]


def in_half(hidden, head, target, max_valid):
    valid = target != IGNORE
    return F.cross_entropy((hidden[valid].half() @ head.T.half()).to(hidden.dtype), target[valid])


WRONG = [
    ("ignore_background", forgets_the_background, "elements differ"),
    ("ignore_background", lambda target: target, "elements differ"),
    ("ignore_background", into_a_reshaped_copy, "background is still there"),
    ("ignore_background", lambda target: torch.where(target == BACKGROUND, IGNORE, target).float(), "dtype torch.int64"),
    ("ignore_background", lambda target: torch.where(target == BACKGROUND, IGNORE, target).flatten(), "shape"),
    ("ignore_background", lambda target: torch.where(target == BACKGROUND, IGNORE, target).cpu(), "stay on the device"),
    ("ignore_background", lambda target: None, "is there a `return`?"),
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
    # Written after the known mistakes were, to see how many of new ones are understood.
    ("ignore_background", lambda target: torch.where(target.bool(), IGNORE, target), "label 2 became -1 and should stay 2"),
    ("ignore_background", lambda target: torch.where(target == BACKGROUND, BACKGROUND, IGNORE), "wrong way round"),
    ("ignore_background", lambda target: target * (target != BACKGROUND) - 1, "label 0 became -1 and should stay 0"),
    ("ignore_background", lambda target: torch.where((target == BACKGROUND).all(), IGNORE, target), "background is still there"),
    ("ignore_background", lambda target: torch.where((target == BACKGROUND).any(), IGNORE, target), "below the background"),
    ("ignore_background", lambda target: F.relu(target), "abel -1 became 0 and should stay -1"),
    ("ignore_background", lambda target: torch.where(target == CLASSES, IGNORE, target), "background is still there"),
    ("ignore_background", lambda target: target.remainder(BACKGROUND), "became 8 and should stay -1"),
    ("ignore_background", lambda target: target != BACKGROUND, "A comparison gives bools"),
    ("zero_if_uniform", lambda loss, target: loss * (target != target.min()).sum(), "67 times the loss"),
    ("zero_if_uniform", lambda loss, target: loss * (target.max() != target.min()).float(), "Something casts"),
    ("zero_if_uniform", lambda loss, target: torch.where(target.min() == target.max(), 0.0, loss), "zero times nan"),
    ("zero_if_uniform", lambda loss, target: torch.where(target.min() == target.max(), torch.zeros_like(loss), loss), "zero times"),
    ("zero_if_uniform", lambda loss, target: torch.where(target.min() < target.max(), loss, loss), "return the loss unchanged"),
    ("zero_if_uniform", lambda loss, target: torch.where(target.diff(dim=-1).abs().sum() == 0, 0.0 * loss, loss), "one dimension"),
    ("zero_if_uniform", each_image_alone, "whole batch"),
    ("zero_if_uniform", any_image_alone, "look at each image alone"),
    ("zero_if_uniform", ignored_counted_as_class_zero, "-1 and class 0 for one value"),
    ("zero_if_uniform", lambda loss, target: torch.where(target.float().mean() == target[0, 0, 0], 0.0 * loss, loss), "by chance"),
    ("zero_if_uniform", lambda loss, target: torch.where(target.float().std(unbiased=False) < 0.1, 0.0 * loss, loss), "near 0"),
    ("zero_if_uniform", lambda loss, target: torch.where(target.double().var() < 1e-9, 0.0 * loss, loss), "one pixel is nan"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred, target.clamp(min=0), reduction="none").sum(), "is wrong"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred, target), "outside 0 … classes"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred.float(), target, ignore_index=IGNORE), "dtype torch.float"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred.half(), target, ignore_index=IGNORE).to(pred.dtype), "lower precision"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred.reshape(-1, pred.shape[1]), target.reshape(-1), ignore_index=IGNORE), "mixes"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred, target, ignore_index=IGNORE) * target.numel() / (target != IGNORE).sum(), "inverse of the share"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred, target, ignore_index=IGNORE).data, "No gradient arrives"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred, target, ignore_index=IGNORE, reduction="none"), "the shape () is wanted"),
    ("masked_cross_entropy", by_the_losses_above_zero, "with a loss of 0 out of the count"),
    ("sparse_head_loss", by_the_width, "divided by 8. Valid are 5 of 40"),
    ("sparse_head_loss", lambda hidden, head, target, max_valid: F.cross_entropy(hidden @ head.T, target), "outside 0"),
    ("sparse_head_loss", lambda hidden, head, target, max_valid: F.cross_entropy(hidden[target > 0] @ head.T, target[target > 0]), "label 0 are left out"),
    ("sparse_head_loss", lambda hidden, head, target, max_valid: F.cross_entropy(hidden @ head.T, target, ignore_index=IGNORE) * max_valid / target.shape[0], "something with `max_valid`"),
    ("masked_cross_entropy", lambda pred, target: F.cross_entropy(pred.permute(0, 3, 2, 1).flatten(0, 2), target.flatten(), ignore_index=IGNORE), "Rows and columns"),
    ("sparse_head_loss", ignored_ones_chosen, "None of the chosen rows has a label"),
    ("sparse_head_loss", in_half, "lower precision"),
]
