"""Lesson 05: the usual wrong versions of ``largest_batch``, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake
from . import slow


def _bisection(catch: type = torch.OutOfMemoryError, keeps: bool = False, low: int = 0, beyond: int = 1, multiple: int = 8,
               unit: int = 8, half: bool = False):
    """Bisection over multiples of ``multiple``: the answer in units of ``unit``. ``keeps``: the last error is kept."""

    def largest_batch(step, most):
        kept = []
        fits, fails = low, most // multiple + beyond
        while fails - fits > 1:
            middle = (fits + fails) // 2
            try:
                step(multiple * middle)
            except catch as error:
                fails = middle
                if keeps:
                    kept.append(error)
            else:
                fits = middle
                if half:
                    break
        return unit * fits

    return largest_batch


def _keeps_results(step, most):
    fits, fails, results = 0, most // 8 + 1, []
    while fails - fits > 1:
        middle = (fits + fails) // 2
        try:
            results.append(step(8 * middle))
            fits = middle
        except torch.OutOfMemoryError:
            fails = middle
    return 8 * fits


def _inside_except(step, most):
    def search(fits, fails):
        if fails - fits <= 1:
            return 8 * fits
        middle = (fits + fails) // 2
        try:
            step(8 * middle)
        except torch.OutOfMemoryError:
            return search(fits, middle)
        return search(middle, fails)

    return search(0, most // 8 + 1)


def _halved(step, most):
    batch = most // 8 * 8
    while batch >= 8:
        try:
            step(batch)
            return batch
        except torch.OutOfMemoryError:
            batch = batch // 2 // 8 * 8
    return 0


def _doubled(step, most):
    found, batch = 0, 8
    while batch <= most:
        try:
            step(batch)
        except torch.OutOfMemoryError:
            break
        found, batch = batch, 2 * batch
    return found


def _from_below(catch: type, up: bool = True):
    def largest_batch(step, most):
        sizes = range(8, most + 1, 8)
        found = 0
        for batch in sizes if up else reversed(sizes):
            try:
                step(batch)
                found = batch
                if not up:
                    break
            except catch:
                if up:
                    break
        return found

    return largest_batch


_ALL_ERRORS = ("It catches errors that are not about the device's memory, so a broken step looks like one that does not "
               "fit. Catch `torch.OutOfMemoryError` and nothing else.")
_HOLDS = ("Something still holds the memory of an earlier trial, so the next one has less. ")
LARGEST_MISTAKES = (
    Mistake(slow.largest_batch, "It tries one size after the other. If a size fits, all smaller sizes fit too. Try the "
                                "middle: it rules out half of the remaining sizes."),
    Mistake(_from_below(torch.OutOfMemoryError), "It tries one size after the other. Try the middle: it rules out half "
                                                 "of the remaining sizes."),
    Mistake(_from_below(torch.OutOfMemoryError, up=False), "It tries one size after the other, from above. Try the "
                                                           "middle: it rules out half of the remaining sizes."),
    Mistake(_bisection(RuntimeError), _ALL_ERRORS),
    Mistake(_bisection(keeps=True), _HOLDS + "A kept error (`errors.append(error)`, `last = error`) holds its traceback, "
                                             "the traceback holds the step's frames, and the frames hold its tensors."),
    Mistake(_inside_except, _HOLDS + "Inside `except` the error is alive, with the frames and tensors of the failed "
                                     "step. Only note there that it failed, and try again after the block."),
    Mistake(_keeps_results, _HOLDS + "You keep what a step returned, and its tensors with it. Do not keep it."),
    Mistake(_halved, "Halving until it fits can end at little more than half of what would fit. Go on between the last "
                     "size that fitted and the first that did not."),
    Mistake(_doubled, "Doubling until it fails leaves up to half of the memory empty. Go on between the last size that "
                      "fitted and the first that did not."),
    Mistake(_bisection(unit=1), "That is how many eights fit: return the batch, a multiple of 8."),
    Mistake(_bisection(multiple=1, unit=1), "It tried sizes that are not multiples of 8. Look among 8, 16, 24, …"),
    Mistake(_bisection(beyond=0), "It never tries the largest size allowed, which may fit: `most` itself belongs to the "
                                  "range."),
    Mistake(_bisection(low=1), "If not even 8 fits, the answer is 0. Your function never tries 8."),
    Mistake(_bisection(half=True), "It stops at the first size that fits: a larger one may fit too."),
)
