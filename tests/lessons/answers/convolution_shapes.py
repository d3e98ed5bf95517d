"""Lesson 05, ``batches_of_few_shapes``: right answers by other routes, and wrong ones."""

import itertools

import torch
import torch.nn.functional as F


def fill(images, indices, rows, height, width):
    """One batch, each image padded by itself and stacked."""
    padded = [F.pad(images[i], (0, width - images[i].shape[2], 0, height - images[i].shape[1])) for i in indices]
    padded += [torch.zeros_like(padded[0])] * (rows - len(indices))
    down, right = torch.arange(height), torch.arange(width)
    heights = torch.tensor([images[i].shape[1] for i in indices] + [0] * (rows - len(indices)))
    widths = torch.tensor([images[i].shape[2] for i in indices] + [0] * (rows - len(indices)))
    mask = (down[None, :, None] < heights[:, None, None]) & (right[None, None, :] < widths[:, None, None])
    return torch.stack(padded), mask.to(images[0].device, non_blocking=True), indices


def grouped(images, batch_size, groups):
    found = []
    for members in groups:
        height, width = max(images[i].shape[1] for i in members), max(images[i].shape[2] for i in members)
        for start in range(0, len(members), batch_size):
            found.append(fill(images, members[start:start + batch_size], batch_size, height, width))
    return found


def by_longest_side(images, batch_size, max_shapes):
    order = sorted(range(len(images)), key=lambda i: max(images[i].shape[1:]), reverse=True)
    batches = [order[i:i + batch_size] for i in range(0, len(order), batch_size)]
    each = -(-len(batches) // max_shapes)
    return grouped(images, batch_size, [sum(batches[i:i + each], []) for i in range(0, len(batches), each)])


def best_cuts(images, batch_size, max_shapes):
    """Sorted by area; of all ways to divide the batches into groups the one with the least padding."""
    order = sorted(range(len(images)), key=lambda i: images[i].numel())
    batches = [order[i:i + batch_size] for i in range(0, len(order), batch_size)]

    def pixels(groups):
        return sum(len(group) * max(images[i].shape[1] for batch in group for i in batch)
                   * max(images[i].shape[2] for batch in group for i in batch) for group in groups)

    ways = [[batches[a:b] for a, b in itertools.pairwise((0, *cuts, len(batches)))]
            for count in range(min(max_shapes, len(batches))) for cuts in itertools.combinations(range(1, len(batches)), count)]
    best = min(ways, key=pixels) if batches else []
    return grouped(images, batch_size, [sum(group, []) for group in best])


def in_tuples(images, batch_size, max_shapes):
    return tuple(list(batch) for batch in best_cuts(images, batch_size, max_shapes))


def by_orientation(images, batch_size, max_shapes):
    """Portraits before landscapes, each by area."""
    order = sorted(range(len(images)), key=lambda i: (images[i].shape[1] > images[i].shape[2], images[i].shape[1] * images[i].shape[2]))
    each = batch_size * -(-len(images) // (batch_size * max_shapes))
    return grouped(images, batch_size, [order[start:start + each] for start in range(0, len(order), each)])


SHAPE_ROUTES = [by_longest_side, best_cuts, in_tuples, by_orientation]


def changed(change):
    """``best_cuts`` with every batch changed."""
    return lambda images, batch_size, max_shapes: [change(*batch) for batch in best_cuts(images, batch_size, max_shapes)]


def padded_to_the_largest(images, batch_size, max_shapes):
    return grouped(images, batch_size, [list(range(len(images)))])


def rounded_to_multiples(images, batch_size, max_shapes):
    order = sorted(range(len(images)), key=lambda i: images[i].numel())
    found = []
    for start in range(0, len(order), batch_size):
        own = order[start:start + batch_size]
        height, width = (-(-max(images[i].shape[side] for i in own) // 8) * 8 for side in (1, 2))
        found.append(fill(images, own, batch_size, height, width))
    return found


def cropped(images, batch_size, max_shapes):
    height, width = (min(image.shape[side] for image in images) for side in (1, 2))
    return best_cuts([image[:, :height, :width] for image in images], batch_size, max_shapes)


def sorted_and_lost(images, batch_size, max_shapes):
    return best_cuts(sorted(images, key=lambda image: image.numel()), batch_size, max_shapes)


def one_batch_more(images, batch_size, max_shapes):
    found = best_cuts(images, batch_size, max_shapes)
    return found + found[:1]


def in_float32(images, batch_size, max_shapes):
    return best_cuts([(image.float() / 255).round() for image in images], batch_size, max_shapes)


def cut_evenly(images, batch_size, max_shapes):
    """Groups of any number of images: each has a last batch with empty rows."""
    order = sorted(range(len(images)), key=lambda i: images[i].numel())
    ends = [len(order) * number // max_shapes for number in range(max_shapes + 1)]
    return grouped(images, batch_size, [order[a:b] for a, b in itertools.pairwise(ends) if a < b])


SHAPE_WRONG = [
    (padded_to_the_largest, "much of it is padding"),
    (rounded_to_multiples, "different shapes of batches"),
    (cropped, "in the top left corner"),
    (sorted_and_lost, "places after sorting"),
    (one_batch_more, "is there 2 times"),
    (in_float32, "others than image"),
    (changed(lambda images, mask, indices: (images, mask, torch.tensor(indices))), "a list of Python integers"),
    (changed(lambda images, mask, indices: (images, mask.float(), indices)), "torch.bool"),
    (changed(lambda images, mask, indices: (images, mask[:, None], indices)), "B×H×W"),
    (changed(lambda images, mask, indices: (images, ~mask, indices)), "mask is inverted"),
    (changed(lambda images, mask, indices: (images[:len(indices)], mask[:len(indices)], indices)), "part of the shape"),
    (changed(lambda images, mask, indices: (images + 1, mask, indices)), "others than image"),
    (changed(lambda images, mask, indices: (images, images[:, 0] != 0, indices)), "not from its pixels"),
    (changed(lambda images, mask, indices: images), "not a triple"),
    (changed(lambda images, mask, indices: (images.roll(1, 3), mask.roll(1, 2), indices)), "top left corner"),
    (changed(lambda images, mask, indices: (images.double(), mask, indices)), "its dtype"),
    (cut_evenly, "The extra pixels are in empty rows"),
    (lambda images, batch_size, max_shapes: None, "a list of batches"),
    (lambda images, batch_size, max_shapes: best_cuts(images[:-1], batch_size, max_shapes), "is in no batch"),
    (lambda images, batch_size, max_shapes: best_cuts(images, 1, max_shapes), "fewer images than it may"),
    (lambda images, batch_size, max_shapes: best_cuts(images, 2 * batch_size, max_shapes), "rows of a batch"),
]
