"""Lesson 08: the usual wrong searches for the largest batch, and what to say of each."""

from __future__ import annotations

import warnings

import torch

from ....course.mistakes import Mistake


def _search(*, catch: type = torch.OutOfMemoryError, times: int = 2, beyond: int = 0,
            watches: bool = True, says: bool = True, caps: bool = True, half: bool = False, empties: bool = True,
            limit: int | None = None):
    """Doubling, then bisection, with slips. ``beyond``: added to what is returned;
    ``watches``: looks whether the step leaks; ``empties``: gives back what is in reserve before each trial; ``limit``: ends
    the search there, whatever fits."""

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
        most = min(most, limit or most)
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
        "`except RuntimeError` catches every error of the device. Only `torch.OutOfMemoryError` means memory; the "
        "others have to pass.")),
    Mistake(_search(times=1), (
        "The second call finds what the first has left: the optimizer's state, or results that the step keeps until it "
        "has new ones. A batch fits if two calls in a row fit.")),
    Mistake(_search(times=1, watches=False), (
        "One call of each batch shows neither what the step keeps until the next call, nor what it keeps forever. A "
        "batch fits if two calls in a row fit.")),
    Mistake(_inside_except, (
        "The next trial runs inside the `except`. There the error is alive, and its traceback holds all tensors of the "
        "failed step, so less fits. Only note there that it failed.")),
    Mistake(_search(limit=1024), (
        "The search ends at a fixed number of rows, and more of them fit. Only `most` limits the batch.")),
    # A search that keeps its errors finds the same: one sentence of both.
    Mistake(_search(empties=False), (
        "A failed trial takes memory from the later ones. It leaves pieces of *its* sizes in reserve: call "
        "`torch.accelerator.empty_cache()` before each trial, so that all begin alike. And a kept error keeps its "
        "traceback, and the failed step's tensors with it. Do not keep the error.")),
    Mistake(_search(watches=False), (
        "Each call of this step leaves more on the device than the one before, so no batch keeps fitting. After two "
        "calls with one batch, read `torch.accelerator.memory_allocated()` and call once more. If it has grown, raise a "
        "ValueError.")),
    Mistake(_search(says=False), "A 0 without a message is hard to understand. Print a line, or warn, that not even a "
                                 "batch of 1 fits."),
    Mistake(_search(beyond=1), "That is the first batch that did not fit. Return the last that did."),
    Mistake(_search(beyond=-1), "One more fits. The search ends one too early, or subtracts one."),
    Mistake(_search(half=True), (
        "Doubling alone finds a power of two. Halve the gap between the last that fitted and the first that did not.")),
    Mistake(_halving, (
        "Halving from the top ends at the first that fits, but more may fit up to its double. Halve the gap further.")),
    Mistake(_search(caps=False), "The doubling goes beyond `most`: stop there."),
    Mistake(_one_by_one, "One batch after the other is right, but takes hundreds of steps. Double, then halve the gap."),
    Mistake(_estimated, (
        "One row says little. The weights, their gradients and the optimizer's step take the same memory for any batch, "
        "and a step may need a workspace. Predict with a line through two batches, or try.")),
)
