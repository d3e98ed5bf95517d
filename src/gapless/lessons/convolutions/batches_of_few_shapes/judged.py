"""Lesson 05: whether images were put into batches of few shapes as asked, in words. On the judge's side."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case

ONCE, OWN, ZEROS = "is in one batch, once", "lie in the top left corner of its row", "zeros"
PIXELS, EMPTY = "pixels of all batches", "in empty rows"
MASK = "True on the image's pixels alone"


def seen(case: Case, plain: list, notes) -> dict:
    """The parts of an answer that are compared to ``case``: ``plain`` as :func:`.stage.ask_batches` returns it, a list of
    batches. Each value says what is right, or else what was found."""
    images, options = case.inputs["images"], case.options
    found = {"each image": ONCE, "its pixels": OWN, "everything else": ZEROS, "the mask": MASK}
    faults: dict[str, list[str]] = {name: [] for name in found}
    times = [0] * len(images)
    for number, batch in enumerate(plain):
        _look(number, batch, images, times, faults)
    for index, count in enumerate(times):
        if count != 1:
            faults["each image"].append(f"image {index} is " + (f"there {count} times" if count else "in no batch"))
    shapes = {tuple(batch["shape"]) for batch in plain}
    pixels = sum(shape[0] * shape[2] * shape[3] for shape in (batch["shape"] for batch in plain))
    empty = sum((batch["shape"][0] - len(batch["indices"])) * batch["shape"][2] * batch["shape"][3] for batch in plain)
    held = f", {empty} of them {EMPTY}" if pixels - empty <= options["most_pixels"] else ""
    most_batches = -(-len(images) // options["batch_size"]) + options["max_shapes"] - 1
    rows = max((batch["shape"][0] for batch in plain), default=0)
    most = f"at most {options['max_shapes']}"
    return {
        **{name: faults[name][0] if faults[name] else right for name, right in found.items()},
        "number of batches": "few enough" if len(plain) <= most_batches else (
            f"{len(plain)}, where {most_batches} are enough"),
        "rows of a batch": f"at most {options['batch_size']}" if rows <= options["batch_size"] else str(rows),
        "different shapes of batches": most if len(shapes) <= options["max_shapes"] else str(len(shapes)),
        PIXELS: "few enough" if pixels <= options["most_pixels"] else (
            f"{pixels}{held}, where sorting leaves at most {options['most_pixels']}"),
    }


def _look(number: int, batch: dict, images: list[np.ndarray], times: list[int], faults: dict[str, list[str]]) -> None:
    """One batch: its faults are added, and how often each image is there."""
    values, mask = np.asarray(batch["images"]), np.asarray(batch["mask"])
    values, mask = values.reshape(batch["shape"]), mask.reshape(batch["mask_shape"])
    indices = batch["indices"]
    if batch["dtype"] != f"torch.{images[0].dtype}":
        faults["its pixels"].append(f"batch {number} is of dtype {batch['dtype']}, the images of torch.{images[0].dtype}")
    if mask.shape != (values.shape[0], *values.shape[2:]):
        faults["the mask"].append(f"batch {number} is {'×'.join(map(str, values.shape))} and its mask "
                                  f"{'×'.join(map(str, mask.shape))}: B×H×W is wanted")
        mask = np.zeros((values.shape[0], *values.shape[2:]), dtype=bool)
    if len(indices) > len(values):
        faults["each image"].append(f"batch {number} has {len(values)} rows and {len(indices)} indices")
    for row, each in enumerate(values):
        index = indices[row] if row < len(indices) else None
        if index is not None and not 0 <= index < len(images):
            faults["each image"].append(f"batch {number} names an image {index}, which is none")
            continue
        height, width = (0, 0) if index is None else images[index].shape[1:]
        place = f"row {row} of batch {number}"
        wanted = np.zeros(mask.shape[1:], dtype=bool)
        wanted[:height, :width] = True
        if not np.array_equal(mask[row], wanted):
            what = "which holds no image" if index is None else f"image {index}"
            faults["the mask"].append(f"wrong in {place}, {what}")
        if index is not None:
            times[index] += 1
            own = each[:, :height, :width]
            if own.shape != images[index].shape or not np.array_equal(own, images[index].astype(own.dtype)):
                faults["its pixels"].append(f"others than image {index}'s in {place}")
        if np.where(wanted, 0, each).any():
            faults["everything else"].append(f"other numbers in {place}")
