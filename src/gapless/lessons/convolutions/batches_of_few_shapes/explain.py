"""Lesson 05: why an answer to ``batches_of_few_shapes`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from .judged import EMPTY, PIXELS

_BATCHES = {
    "each image": "Every image has to be in exactly one batch, once. Its index is its place in the list that was given.",
    "its pixels": "An image keeps its pixels, its dtype and its corner: `batch[row, :, :height, :width] = image`.",
    "everything else": "All that belongs to no image is zero: begin with `new_zeros`.",
    "the mask": "The mask comes from each image's size, not from its pixels: a pixel of an image may be 0.",
    "number of batches": "Fill the batches: only the last batch of each shape may have empty rows.",
    "rows of a batch": "`batch_size` is the most that a batch may hold.",
    "different shapes of batches": "The autotuner looks at B, C, H and W together, so a smaller last batch is one more "
                                   "shape.",
    PIXELS: "Most of the extra pixels are padding: put images of nearly one size into one group.",
    EMPTY: "The extra pixels are in empty rows. Make groups of whole batches, so that only the very last batch has empty "
           "rows.",
}


def batches(case, found, wanted) -> str | None:
    if not isinstance(found, dict):
        return None
    wrong = next((name for name in wanted if found.get(name) != wanted[name]), None)
    return _BATCHES.get(EMPTY if wrong == PIXELS and EMPTY in str(found.get(PIXELS)) else wrong)
