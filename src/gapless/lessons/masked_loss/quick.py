"""Lesson 02: ten lines, and whether the host waits at them. The device answers."""

from __future__ import annotations

import torch

from ...course.quick import Quick, QuickQuestions


def setup(device: torch.device) -> dict:
    """The names that the lines use."""
    x, y = torch.rand(64, 64, device=device), torch.rand(64, 64, device=device)
    labels = torch.arange(64, device=device) % 10
    return {"x": x, "y": y, "mask": x > 0.5, "labels": labels, "counts": labels + 1, "index": labels[:3]}


QUICK = QuickQuestions(
    question=("Does the host wait at this line? (All tensors are on the device. `x` and `y` are 64×64, `mask` "
              "is `x > 0.5`; `index`, `labels` and `counts` hold integers.)"),
    counts="waits",
    setup=setup,
    questions=(
        Quick("picked = x[mask]",
              "The result has as many numbers as the mask has `True`s. The host waits for the count. "
              "`x.masked_select(mask)` does the same."),
        Quick("x[mask] = 0",
              "A plain number assigned through a mask becomes `masked_fill_`, whose result is as large as `x`."),
        Quick("i, j = torch.where(mask)",
              "With one argument `torch.where` is `nonzero`: it returns all positions, and only the device knows how "
              "many."),
        Quick("z = torch.where(mask, x, 0.0)",
              "With three arguments it chooses element by element. The result is as large as its inputs."),
        Quick("i = torch.nonzero_static(mask, size=10)",
              "You give the size, so the host needs no count. Positions beyond that size are dropped, missing ones are "
              "filled."),
        Quick("kinds = torch.unique(labels)", "Only the device knows how many distinct values there are."),
        Quick("rows = x[index]",
              "An index of integers picks as many rows as it has entries, so the result's shape is known."),
        Quick("r = x.repeat_interleave(counts, dim=0)",
              "The result has `counts.sum()` rows. If you know that number, give it as `output_size`."),
        Quick("n = torch.bincount(labels, minlength=10)",
              "The result is longer if a label exceeds 9. So PyTorch reads the smallest and the largest label, even "
              "with `minlength`."),
        Quick("same = torch.equal(x, y)",
              "It returns Python's `True` or `False`. `(x == y).all()` gives the same answer as a tensor, without a "
              "wait."),
    ),
)
