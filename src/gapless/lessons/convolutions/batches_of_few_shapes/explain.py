"""Lesson 05: why an answer to ``batches_of_few_shapes`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from .judged import EMPTY, PIXELS

_BATCHES = {
    "each image": "Every image has to be in one batch, once, under its place in the list that was given.",
    "its pixels": "An image keeps its pixels, its dtype and its corner: `batch[row, :, :height, :width] = image`.",
    "everything else": "What is no image's is zero: begin with `new_zeros`.",
    "the mask": "The mask comes from each image's size, not from its pixels: a pixel of an image may be 0.",
    "number of batches": "Full batches make the fewest: only the last of each shape may have empty rows.",
    "rows of a batch": "`batch_size` is the most that a batch may hold.",
    "different shapes of batches": "B, C, H and W together are the shape that the autotuner goes by: a smaller last batch "
                                   "is one more.",
    PIXELS: "Most of what is too much is padding: put images of nearly one size into one group.",
    EMPTY: "What is too much is in empty rows: groups of whole batches leave them to the last batch of all.",
}


def batches(case, found, wanted) -> str | None:
    if not isinstance(found, dict):
        return None
    wrong = next((name for name in wanted if found.get(name) != wanted[name]), None)
    return _BATCHES.get(EMPTY if wrong == PIXELS and EMPTY in str(found.get(PIXELS)) else wrong)
