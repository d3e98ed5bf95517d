"""Lesson 03: why an answer to ``update_loss`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import math

import numpy as np

from ..explain import same_answer
from .stage import MORE_CALLS


def update_loss(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(found.get("mean"), float):
        return None
    mean, losses = found["mean"], case.inputs["losses"].astype(np.float64)
    seen = losses[np.isfinite(losses)]
    if same_answer(mean, wanted["mean"]):
        return _later(found, wanted)
    if math.isnan(mean):
        return ("NaN is 0 / 0: the metric counted nothing, or only losses or weights that are NaN, which its check removes.")
    if math.isinf(mean):
        return "A number too large for its dtype became inf: float16 ends at 65504. Was the loss multiplied in float16?"
    if not seen.size or not math.isfinite(wanted["mean"]):
        return "An inf in the losses has to be seen in the mean, and a NaN left out: `MeanMetric` does both itself."
    if not seen.min() - 1e-6 <= mean <= seen.max() + 1e-6:
        return ("That cannot be a mean of these losses: none is so large or so small. The loss itself was changed on "
                "the way. Give it as it is, with its weight beside it.")
    batches = np.array(case.options["batches"], dtype=np.float64)
    usable = np.isfinite(losses)
    for words, weights in (("batch − 1", batches - 1), ("batch + 1", batches + 1), ("the square root of "
                                                                                    "`batch`", batches**0.5),
                           ("the logarithm of `batch`", np.log(np.maximum(batches, 1))),
                           ("the batch before", np.roll(batches, 1))):
        if weights[usable].sum() and same_answer(mean, float(np.average(losses[usable], weights=weights[usable]))):
            return f"Each loss is weighted with {words}: the weight is `batch`, the number of its own images."
    return ("It is a mean of these losses, with other weights than the numbers of images: each update's weight has to be "
            "its "
            "own `batch`, made in this call; and none may be kept for later.")


def _later(found: dict, wanted: dict) -> str:
    """The first mean is right."""
    if found[MORE_CALLS]:
        return "One call of `update` is enough for each batch, with its whole weight."
    if not same_answer(found.get("mean after another update"), wanted["mean after another update"]):
        return ("The first result is right, but a later one is not: a metric remembers its last result until `update` is "
                "called. Call that; do not write into its state.")
    if not same_answer(found.get("mean after 50 more images of loss 1"), wanted["mean after 50 more images of loss 1"]):
        return ("The weights are right in proportion to each other, but not in size: they have to be the numbers of images, "
                "as others update this metric too. Was `batch` divided by something?")
    return ("One metric alone gets it right, but two updated in turn do not: something is kept outside the metric, from one "
            "call to the next.")
