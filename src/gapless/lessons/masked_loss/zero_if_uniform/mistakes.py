"""Lesson 02: the usual wrong versions of ``zero_if_uniform``, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake
from ..stage import IGNORE


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
