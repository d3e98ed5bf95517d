"""Lesson 05: the usual wrong versions of ``batches_of_few_shapes``, and what to say of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake
from .right import batches_of_few_shapes, filled, planned
from .slow import batches_of_few_shapes as as_handed_out


def _sizes(images) -> list[tuple[int, int]]:
    return [tuple(each.shape[1:]) for each in images]


def _plan(images, batch_size: int, max_shapes: int, **choices) -> list[tuple]:
    return [filled(images, *batch) for batch in planned(_sizes(images), batch_size, max_shapes, **choices)]


def unsorted(images, batch_size, max_shapes):
    """Groups of neighbours in the order in which they came."""
    return _plan(images, batch_size, max_shapes, by=lambda size: 0)


def one_shape(images, batch_size, max_shapes):
    """All as large as the largest."""
    return _plan(images, batch_size, 1)


def short_last_batch(images, batch_size, max_shapes):
    """Right, except for a last batch with fewer rows."""
    return [(batch[:len(indices)], mask[:len(indices)], indices)
            for batch, mask, indices in batches_of_few_shapes(images, batch_size, max_shapes)]


def last_one_dropped(images, batch_size, max_shapes):
    whole = len(images) // batch_size * batch_size
    return batches_of_few_shapes(images[:whole], batch_size, max_shapes) if whole else []


def places_after_sorting(images, batch_size, max_shapes):
    found, place = [], 0
    for batch, mask, indices in batches_of_few_shapes(images, batch_size, max_shapes):
        found.append((batch, mask, list(range(place, place + len(indices)))))
        place += len(indices)
    return found


def indices_reversed(images, batch_size, max_shapes):
    return [(batch, mask, indices[::-1]) for batch, mask, indices in batches_of_few_shapes(images, batch_size, max_shapes)]


def mask_of_what_is_not_zero(images, batch_size, max_shapes):
    return [(batch, (batch != 0).any(1), indices)
            for batch, _, indices in batches_of_few_shapes(images, batch_size, max_shapes)]


def mask_of_rows(images, batch_size, max_shapes):
    return [(batch, mask.flatten(1).any(1)[:, None, None].expand_as(mask), indices)
            for batch, mask, indices in batches_of_few_shapes(images, batch_size, max_shapes)]


def mask_turned_round(images, batch_size, max_shapes):
    return [(batch, ~mask, indices) for batch, mask, indices in batches_of_few_shapes(images, batch_size, max_shapes)]


def resized(images, batch_size, max_shapes):
    """Every image blown up to its batch's size."""
    found = []
    for indices, (rows, height, width) in planned(_sizes(images), batch_size, max_shapes):
        batch, _, _ = filled(images, [], (rows, height, width))
        for row, i in enumerate(indices):
            batch[row] = F.interpolate(images[i][None].float(), size=(height, width))[0].to(batch.dtype)
        mask = torch.zeros(rows, height, width, dtype=torch.bool, device=batch.device)
        mask[:len(indices)] = True
        found.append((batch, mask, indices))
    return found


def filled_with_ones(images, batch_size, max_shapes):
    return [filled(images, *batch, zero=1) for batch in planned(_sizes(images), batch_size, max_shapes)]


def repeated(images, batch_size, max_shapes):
    """Empty rows filled with the first image again."""
    found = []
    for indices, shape in planned(_sizes(images), batch_size, max_shapes):
        found.append(filled(images, indices + indices[:1] * (shape[0] - len(indices)), shape))
    return found


def one_at_a_time(images, batch_size, max_shapes):
    return batches_of_few_shapes(images, 1, max_shapes)


SHAPES = (
    Mistake(as_handed_out, (
        "Each batch is as large as its largest image, so nearly every batch has its own shape. Give several batches one "
        "shape.")),
    Mistake(one_shape, (
        "There is only one shape, and much of it is padding, which every layer computes. Sort by size, and use all the "
        "shapes you may.")),
    Mistake(unsorted, (
        "Large and small images share a group, so the small ones are padded to the large ones' size. Sort by size "
        "first, and keep each image's index.")),
    Mistake(short_last_batch, (
        "A last batch with fewer rows is another shape, and is tuned again: the batch size is part of the shape. Fill "
        "it with empty rows (zeros, and False in the mask).")),
    Mistake(last_one_dropped, (
        "The images that do not fill a batch are dropped. Keep every image, and leave rows empty instead.")),
    Mistake(places_after_sorting, (
        "These are the places after sorting. An index is the image's place in the list that was given.")),
    Mistake(indices_reversed, "Row r of a batch holds the image `indices[r]`. Here rows and indices are in a different "
                              "order."),
    Mistake(mask_of_what_is_not_zero, (
        "The mask comes from the pixels, and a pixel of an image may be 0. Take it from the image's size.")),
    Mistake(mask_of_rows, (
        "The mask is True on an image's padding too. It must be True on the image's own pixels only.")),
    Mistake(mask_turned_round, (
        "The mask is inverted: it must be True on the image's pixels and False on the padding.")),
    Mistake(resized, (
        "Were the images resized, or moved in their rows? Leave their pixels as they are, in the top left corner, and "
        "pad on the right and below.")),
    Mistake(filled_with_ones, "The padding is not zero."),
    Mistake(repeated, (
        "Empty rows repeat an image, which would count twice in the loss. Leave them zero, without an index.")),
    Mistake(one_at_a_time, (
        "A batch holds fewer images than it may. That makes more batches and smaller kernels.")),
)
