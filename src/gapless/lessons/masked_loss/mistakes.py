"""Lesson 02: the usual wrong versions, and what to say of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ...course.mistakes import Mistake
from .functions import BACKGROUND, IGNORE

# -- ignore_background ------------------------------------------------------------------------------

_ABOVE = "Classes above the background are replaced too, where there are any: compare with `==`."
_BELOW = "Every class below the background is replaced too: compare with `==`."
_ZERO = ("The background became 0, and 0 is a class: the pixel would be trained on. Put `IGNORE` there. (Multiplying by a "
         "mask gives 0.)")

BACKGROUND_MISTAKES = (
    Mistake(lambda target: target.clone(), (
        "The background is still there. Was a result thrown away? `masked_fill` and `torch.where` return a new tensor; only "
        "`masked_fill_`, with a `_`, writes into the old one.")),
    Mistake(lambda target: torch.where(target == BACKGROUND, target, IGNORE), (
        "The two sides are the wrong way round: `torch.where(condition, a, b)` takes `a` where the condition holds, and `b` "
        "elsewhere.")),
    Mistake(lambda target: torch.where(target >= BACKGROUND, IGNORE, target), _ABOVE),
    Mistake(lambda target: torch.where(target > BACKGROUND, IGNORE, target), _ABOVE + " And the background itself stays."),
    Mistake(lambda target: torch.where(target <= BACKGROUND, IGNORE, target), _BELOW),
    Mistake(lambda target: torch.where(target < BACKGROUND, IGNORE, target), _BELOW + " And the background itself stays."),
    Mistake(lambda target: torch.where(target == BACKGROUND, 0, target), _ZERO),
    Mistake(lambda target: torch.where(target == BACKGROUND, -100, target), (
        "-100 is what PyTorch ignores by default; in this lesson it is `IGNORE`, -1.")),
    Mistake(lambda target: torch.where(target == BACKGROUND, 1, target), "Put `IGNORE` in place of the background, not 1."),
    Mistake(lambda target: torch.where(target == IGNORE, BACKGROUND, target), (
        "What is ignored became background: it is the background that is to become `IGNORE`.")),
    Mistake(lambda target: torch.where((target == BACKGROUND) | (target == 0), IGNORE, target), (
        "Class 0 is replaced too. It is a class like any other.")),
    Mistake(lambda target: torch.where(target == BACKGROUND - 1, IGNORE, target), (
        "Class 8 is replaced: the background is `BACKGROUND`, 9. (Classes count from 0.)")),
    Mistake(lambda target: torch.where(target == BACKGROUND + 1, IGNORE, target), (
        "Class 10 is replaced: the background is `BACKGROUND`, 9. (`CLASSES` is how many there are.)")),
    Mistake(lambda target: torch.where(target == target.max(), IGNORE, target), (
        "The largest label is replaced, whatever it is. The background is the class `BACKGROUND`.")),
    Mistake(lambda target: target.clamp(max=BACKGROUND - 1), (
        "The background became class 8: `clamp` moves a value to the bound. Choose with `torch.where` instead.")),
    Mistake(lambda target: torch.full_like(target, IGNORE), "Every pixel is ignored now: only the background should be."),
    Mistake(lambda target: torch.where(target == BACKGROUND, target + IGNORE, target), (
        "`IGNORE` was added to the label: put it in the label's place.")),
    Mistake(lambda target: torch.where(target == BACKGROUND, -target, target), (
        "The label became -9: only `IGNORE`, -1, is left out of the loss.")),
)

# -- zero_if_uniform --------------------------------------------------------------------------------


def _uniform(target):
    return target.min() == target.max()


def _uniform_among_valid(target):
    valid = target != IGNORE
    return torch.where(valid, target, 2**40).min() >= torch.where(valid, target, -2**40).max()


_ALWAYS = ("It is zero on every input. Is the condition true for all labels? `(target == first).any()` always is; `.all()` "
           "asks what you want to know.")
_ALONG_ONE = "Labels are compared along one dimension only; they must be the same in the whole batch."

UNIFORM_MISTAKES = (
    Mistake(lambda loss, target: loss * 1.0, (
        "The loss comes back as it is, and here all labels are the same. Was the result of `torch.where` thrown away, or is "
        "the condition never true?")),
    Mistake(lambda loss, target: 0.0 * loss, _ALWAYS),
    Mistake(lambda loss, target: torch.where(_uniform(target), loss, 0.0 * loss), (
        "The two sides are the wrong way round: uniform labels give zero, mixed ones the loss.")),
    Mistake(lambda loss, target: torch.where(_uniform(target), torch.zeros_like(loss), loss), (
        "Zero was put in the loss's place; it has to be *multiplied* by zero, as in the slow function: zero times nan or "
        "inf is nan, and shows that something went wrong.")),
    Mistake(lambda loss, target: torch.nan_to_num(loss) * ~_uniform(target), (
        "The nan is gone. Multiply the loss itself by zero: zero times nan stays nan, and shows that something went "
        "wrong.")),
    Mistake(lambda loss, target: torch.where(_uniform_among_valid(target), 0.0 * loss, loss), (
        "Ignored pixels were left out of the comparison. Here -1 counts as a value like the others.")),
    Mistake(lambda loss, target: torch.where((target == IGNORE).all(), 0.0 * loss, loss), (
        "Only labels that are *all ignored* give zero. Labels that are all of any one class must too.")),
    Mistake(lambda loss, target: torch.where((target == target[:, :1, :1]).all(), 0.0 * loss, loss), (
        "Each image is compared with its own first pixel. The labels of the whole batch have to be the same.")),
    Mistake(lambda loss, target: torch.where((target == target[:, :, :1]).all(), 0.0 * loss, loss), _ALONG_ONE),
    Mistake(lambda loss, target: torch.where((target == target[:, :1]).all(), 0.0 * loss, loss), _ALONG_ONE),
    Mistake(lambda loss, target: torch.where((target == target[:1]).all(), 0.0 * loss, loss), _ALONG_ONE),
    Mistake(lambda loss, target: torch.where((target[0] == target[0].flatten()[0]).all(), 0.0 * loss, loss), (
        "Only the batch's first image is looked at.")),
    Mistake(lambda loss, target: torch.where(target.flatten()[0] == target.flatten()[-1], 0.0 * loss, loss), (
        "Only the first and the last pixel are compared.")),
    Mistake(lambda loss, target: loss * (target.max() - target.min()), (
        "The loss is multiplied by the difference between the labels: multiply by 0 or 1, or choose with `torch.where`.")),
    Mistake(lambda loss, target: torch.where(target.float().mean() == target[0, 0, 0], 0.0 * loss, loss), (
        "The mean can equal the first label by chance. Compare the smallest label with the largest.")),
    Mistake(lambda loss, target: torch.where(target.float().std() == 0, 0.0 * loss, loss), (
        "The standard deviation of one pixel is nan, which equals nothing. Compare the smallest label with the largest.")),
    Mistake(lambda loss, target: torch.where((target == target.flatten()[0]).any(), 0.0 * loss, loss), _ALWAYS),
    Mistake(lambda loss, target: torch.where(target.sum() == 0, 0.0 * loss, loss), (
        "A sum of 0 says nothing of whether all labels are the same. Compare the smallest with the largest.")),
    Mistake(lambda loss, target: torch.where(target.max() == 0, 0.0 * loss, loss), (
        "The largest label alone says nothing of whether all are the same: compare it with the smallest.")),
    Mistake(lambda loss, target: torch.where(_uniform(target), 0.0 * loss, loss).detach() * loss / loss.detach(), (
        "The gradient takes a way round the choice: compute the result from `loss` alone, and leave `detach` out.")),
)

# -- masked_cross_entropy ---------------------------------------------------------------------------


def _each(pred, target, ignore=IGNORE):
    return F.cross_entropy(pred, target, ignore_index=ignore, reduction="none")


def _by_hand(pred, target, dim):
    valid = target != IGNORE
    picked = F.log_softmax(pred, dim).gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
    return -torch.where(valid, picked, 0.0).sum() / valid.sum()


def _mean_of_means(pred, target):
    valid = (target != IGNORE).sum((1, 2))
    return (_each(pred, target).sum((1, 2)) / valid).mean()


def _only_ignored(pred, target):
    ignored = target == IGNORE
    return torch.where(ignored, _each(pred, target.clamp(min=0)), 0.0).sum() / ignored.sum()


_ALL_PIXELS = ("It is divided by the number of all pixels. The mean is over those that are not ignored: divide by their "
               "number.")
_AS_ZERO = ("Ignored pixels are counted as class 0. `clamp` keeps the index legal; their loss has to be left out all the "
            "same, from the sum and from the count.")

ENTROPY_MISTAKES = (
    Mistake(lambda pred, target: _each(pred, target).mean(), _ALL_PIXELS),
    Mistake(lambda pred, target: _each(pred, target).sum(), (
        "That is the sum; the mean is wanted, over the pixels that are not ignored.")),
    Mistake(lambda pred, target: F.cross_entropy(pred, target.clamp(min=0)), _AS_ZERO),
    Mistake(lambda pred, target: _each(pred, target.clamp(min=0)).sum() / (target != IGNORE).sum(), (
        "Ignored pixels are added to the sum as class 0, and left out of the count: set their loss to 0 first.")),
    Mistake(lambda pred, target: _each(pred, target).sum() / (target != IGNORE).sum().clamp(min=1), (
        "Where every pixel is ignored, the mean is of no elements, and nan: do not guard the division.")),
    Mistake(lambda pred, target: torch.nan_to_num(F.cross_entropy(pred, target, ignore_index=IGNORE)), (
        "Where every pixel is ignored, the mean is of no elements, and nan: do not replace it.")),
    Mistake(_mean_of_means, "That is the mean of the images' means. Every pixel of the batch counts alike."),
    Mistake(lambda pred, target: _each(pred, target).sum() / pred.shape[0], (
        "It is divided by the number of images; the mean is over the pixels that are not ignored.")),
    Mistake(lambda pred, target: F.cross_entropy(
        pred, torch.where(target == BACKGROUND, IGNORE, target), ignore_index=IGNORE), (
        "Pixels of the class `BACKGROUND` are left out too. Here only `IGNORE` is; the background was dealt with before.")),
    Mistake(lambda pred, target: F.cross_entropy(pred, torch.where(target == 0, IGNORE, target), ignore_index=IGNORE), (
        "Class 0 is left out too. It is a class like any other.")),
    Mistake(lambda pred, target: F.cross_entropy(pred, target.clamp(min=0), ignore_index=0), (
        "Class 0 is left out, along with what is ignored. Name the label that is ignored: `ignore_index=IGNORE`.")),
    Mistake(lambda pred, target: F.cross_entropy(pred * (target != IGNORE).unsqueeze(1), target.clamp(min=0)), (
        "The logits of ignored pixels were set to 0, and are counted all the same: a pixel of ten equal logits has the loss "
        "log 10. Leave its *loss* out.")),
    Mistake(lambda pred, target: F.cross_entropy(
        pred.reshape(-1, pred.shape[1]), target.reshape(-1), ignore_index=IGNORE), (
        "`reshape` does not move the classes to the end: it mixes them with the pixels. `permute(0, 2, 3, 1)` first, or "
        "give `F.cross_entropy` the tensors as they are.")),
    Mistake(lambda pred, target: F.cross_entropy(pred.softmax(1), target, ignore_index=IGNORE), (
        "`F.cross_entropy` takes logits and does the softmax itself: yours is done twice.")),
    Mistake(lambda pred, target: F.cross_entropy(pred.sigmoid(), target, ignore_index=IGNORE), (
        "`F.cross_entropy` takes logits as they are: leave the sigmoid out.")),
    Mistake(lambda pred, target: F.nll_loss(pred, target, ignore_index=IGNORE), (
        "`F.nll_loss` takes logarithms of probabilities: give it `F.log_softmax(pred, 1)`, or use `F.cross_entropy`.")),
    Mistake(lambda pred, target: F.nll_loss(pred.softmax(1), target, ignore_index=IGNORE), (
        "`F.nll_loss` takes *logarithms* of probabilities: `log_softmax`, not `softmax`.")),
    Mistake(lambda pred, target: -F.cross_entropy(pred, target, ignore_index=IGNORE), (
        "The sign is wrong: the loss is the *negative* logarithm, and never below 0.")),
    Mistake(lambda pred, target: _by_hand(pred, target, 0), (
        "The softmax is taken over the images: the classes are dimension 1.")),
    Mistake(lambda pred, target: _by_hand(pred, target, -1), (
        "The softmax is taken over the pixels of a row: the classes are dimension 1.")),
    Mistake(lambda pred, target: _by_hand(pred, target, 2), (
        "The softmax is taken over the pixels of a column: the classes are dimension 1.")),
    Mistake(_only_ignored, "The mask is the wrong way round: the ignored pixels are counted, and the others left out."),
    Mistake(lambda pred, target: F.cross_entropy(pred, target, ignore_index=IGNORE).detach(), (
        "No gradient arrives at `pred`: leave `detach` and `no_grad` out.")),
    Mistake(lambda pred, target: F.cross_entropy(pred, target, ignore_index=IGNORE, label_smoothing=0.1), (
        "Smoothed labels give another loss: leave `label_smoothing` out.")),
)

# -- sparse_head_loss -------------------------------------------------------------------------------


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
