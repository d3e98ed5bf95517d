"""Lesson 08: the usual wrong searches for the largest batch, and what to say of each."""

from __future__ import annotations

import warnings

import torch

from ....course.mistakes import Mistake


def _search(*, catch: type = torch.OutOfMemoryError, times: int = 2, beyond: int = 0,
            watches: bool = True, says: bool = True, caps: bool = True, half: bool = False, empties: bool = True):
    """Doubling, then bisection, with slips. ``beyond``: added to what is returned;
    ``watches``: looks whether the step leaks; ``empties``: gives back what is in reserve before each trial."""

    def largest_batch_that_fits(step, most):
        def fits(batch):
            if empties:
                torch.accelerator.empty_cache()
            try:
                for _ in range(times):
                    step(batch)
            except catch:
                return False
            return True

        if not fits(1):
            if says:
                warnings.warn("not even a batch of 1 fits into the device's memory", stacklevel=2)
            return 0
        if watches:
            held = torch.accelerator.memory_allocated()
            step(1)
            if torch.accelerator.memory_allocated() > held:
                raise ValueError("the step keeps more memory with each call: no batch goes on fitting")
        low, high = 1, 2
        while (high <= most or not caps) and fits(high):
            low, high = high, 2 * high
        if half:
            return low
        high = min(high, most + 1) if caps else high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low + beyond

    return largest_batch_that_fits


right_search = _search()


def _inside_except(step, most):
    def search(low, high):
        if high - low <= 1:
            return low
        middle = (low + high) // 2
        torch.accelerator.empty_cache()
        try:
            step(middle)
            step(middle)
        except torch.OutOfMemoryError:
            return search(low, middle)
        return search(middle, high)

    return search(0, most + 1)


def _one_by_one(step, most):
    for batch in range(1, most + 1):
        torch.accelerator.empty_cache()
        try:
            step(batch)
            step(batch)
        except torch.OutOfMemoryError:
            return batch - 1
    return most


def _halving(step, most):
    batch = most
    while batch:
        try:
            step(batch)
            step(batch)
            return batch
        except torch.OutOfMemoryError:
            batch //= 2
    warnings.warn("none fits", stacklevel=2)
    return 0


def _estimated(step, most):
    """From what is free, and what one row takes."""
    module = torch.accelerator
    try:
        step(1)
        module.reset_peak_memory_stats()
        before = module.memory_allocated()
        step(1)
    except torch.OutOfMemoryError:
        warnings.warn("none fits", stacklevel=2)
        return 0
    free, _ = module.get_memory_info()
    return min(most, max(1, free // max(1, module.max_memory_allocated() - before)))


SEARCHES = (
    Mistake(_search(catch=RuntimeError), (
        "`except RuntimeError` catches every error of the device. `torch.OutOfMemoryError` is the one that means memory; "
        "the others have to pass.")),
    Mistake(_search(times=1), (
        "The second call finds what the first has left: its results, which the step keeps until it has new ones, or the "
        "optimizer's state. A batch fits where two calls in a row fit.")),
    Mistake(_search(times=1, watches=False), (
        "One call of each batch tells neither what the step keeps until the next call, nor what it keeps for ever: a batch "
        "fits where two calls in a row fit.")),
    Mistake(_inside_except, (
        "The next trial runs inside the `except`, where the error is alive, and with its traceback all tensors of the "
        "failed step: less fits than would. Only note there that it failed.")),
    # A search that keeps its errors finds the same: one sentence of both.
    Mistake(_search(empties=False), (
        "A failed trial takes memory from those that follow. What it leaves in reserve lies in pieces of *its* sizes: "
        "`torch.accelerator.empty_cache()` before each trial lets all begin alike. And an error that is kept keeps its "
        "traceback, and with it the failed step's tensors: keep none of it.")),
    Mistake(_search(watches=False), (
        "Each call of this step leaves more on the device than the one before: no batch goes on fitting. After two calls "
        "with one batch ask `torch.accelerator.memory_allocated()`, call once more, and raise a ValueError where it has "
        "grown.")),
    Mistake(_search(says=False), "A 0 without a word is a riddle: print a line, or warn, that not even a batch of 1 fits."),
    Mistake(_search(beyond=1), "That is the first that did not fit: return the last that did."),
    Mistake(_search(beyond=-1), "One more fits: the search ends one too early, or takes one off."),
    Mistake(_search(half=True), (
        "Doubling alone finds a power of two: halve the gap between the last that fitted and the first that did not.")),
    Mistake(_halving, (
        "Halving from the top ends at the first that fits: between it and its double lie others. Halve the gap further.")),
    Mistake(_search(caps=False), "The doubling goes beyond the most that is allowed: stop there."),
    Mistake(_one_by_one, "One batch after the other is right, and takes hundreds of steps: double, then halve the gap."),
    Mistake(_estimated, (
        "One row tells little: the weights, their gradients and the optimizer's step take the same whatever the batch, and "
        "a step may want a workspace. Predict with a line through two batches, or try.")),
)
