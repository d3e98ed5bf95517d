"""Lesson 02: the usual wrong versions of ``masked_cross_entropy``, and what to say of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake
from ..stage import BACKGROUND, IGNORE


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
