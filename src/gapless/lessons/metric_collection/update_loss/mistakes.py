"""Lesson 03: the usual wrong versions of ``update_loss``, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake


def _updated(value=lambda loss, batch: loss, weight=lambda loss, batch: _filled(loss, batch), times: int = 1):
    """update_loss with another value or weight."""

    def update_loss(metric, loss, batch):
        for _ in range(times):
            metric.update(value(loss, batch), weight(loss, batch))

    return update_loss


def _filled(loss, number):
    return torch.full_like(loss, number, dtype=torch.float64)


def _into_the_state(metric, loss, batch):
    metric.mean_value += loss * batch
    metric.weight += batch


def _into_the_state_without_nan(metric, loss, batch):
    if not loss.isnan():
        _into_the_state(metric, loss, batch)


def _last_only(metric, loss, batch):
    metric.reset()
    metric.update(loss, weight=batch)


def _finite_only(metric, loss, batch):
    if loss.isfinite():
        metric.update(loss, weight=batch)


_TWICE = ("The loss was multiplied by its weight before: TorchMetrics does that itself. Give it the loss as it is, and the "
          "weight beside it.")
_STATE = ("That is what writing into the metric's state gives: nothing counts the update, nothing leaves a NaN out, and the "
          "last result is remembered. All that happens in `update`: call it.")
_CUT = "A loss was converted to a whole number on the way: its fraction is cut off. Give the loss as it is."
UPDATE_LOSS = (
    Mistake(_updated(weight=lambda loss, batch: None),
            "That is the mean without the weights: a last batch of three images counts as much as a full one. A weight of "
            "ones is no weight either: each loss counts `batch` times."),
    Mistake(_updated(lambda loss, batch: loss * batch, lambda loss, batch: None), _TWICE),
    Mistake(_updated(lambda loss, batch: loss * batch), _TWICE),
    Mistake(lambda metric, loss, batch: None, "The metric counted nothing: was `metric.update` called, on this metric?"),
    Mistake(_last_only, "Only the last loss counts: the metric is reset before each update. It has to keep what it has "
                        "taken "
                        "in; who reads the mean resets it."),
    Mistake(_into_the_state, _STATE),
    Mistake(_into_the_state_without_nan, _STATE),
    Mistake(_updated(times=2), "Each loss is taken in twice: one call of `update` for each loss (calling the metric, "
                               "`metric(…)`, updates it too)."),
    Mistake(_updated(lambda loss, batch: loss.nan_to_num(0.0, posinf=torch.inf, neginf=-torch.inf)),
            "A NaN was counted as a loss of 0, with its full weight. It has to be left out: `MeanMetric` does that itself, "
            "if it gets the NaN."),
    Mistake(_updated(torch.nan_to_num), "NaN was counted as a loss of 0 or inf as a large number (`nan_to_num` does "
                                        "both). Give the "
                                        "loss as it is: `MeanMetric` leaves NaN out itself."),
    Mistake(_finite_only, "A loss of inf was left out: it has to be seen in the mean. Is only what is finite taken in, or "
                          "is the weight computed from the loss, where inf × 0 is NaN? Use the loss's form, not its value."),
    Mistake(_updated(lambda loss, batch: _filled(loss, batch), lambda loss, batch: loss),
            "The loss and its weight are swapped: `update(value, weight)`."),
    Mistake(_updated(weight=lambda loss, batch: _filled(loss, batch**2)),
            "Each loss is weighted with its number of images twice over, batch × batch: does one copy for each image get a "
            "weight too?"),
    Mistake(_updated(weight=lambda loss, batch: _filled(loss, 1 / max(batch, 1))),
            "The weight is one divided by the number of images: small batches count most. The weight is `batch` itself."),
    Mistake(_updated(lambda loss, batch: loss / max(batch, 1)),
            "The loss was divided by the number of images: it is a mean over its batch already."),
    Mistake(_updated(lambda loss, batch: loss / max(batch, 1), lambda loss, batch: None),
            "The loss was divided by the number of images, and not weighted: it is a mean over its batch already, and "
            "`batch` is its weight."),
    Mistake(_updated(lambda loss, batch: loss.nan_to_num(0.0).trunc()), _CUT),
    Mistake(_updated(lambda loss, batch: loss.trunc()), _CUT),
    *(Mistake(_updated(weight=lambda loss, batch, kind=kind: torch.tensor(batch % 2**31).to(kind)),
              "The weight is in a kind of number too small for it: uint8 ends at 255, int8 at 127, and beyond 256 bfloat16 "
              "skips whole numbers. Give it the loss's dtype, or float32.")
      for kind in (torch.uint8, torch.int8, torch.bfloat16)),
    Mistake(_updated(lambda loss, batch: loss.half()),
            "The loss was cast to float16 on the way: a metric in a higher precision loses it. Give the loss as it is."),
    Mistake(_updated(lambda loss, batch: (loss.float() * batch).sum() / max(batch, 1)),
            "A number too large for float32 was cast to it (or multiplied in float32), and became inf. Leave the dtype "
            "to the metric."),
    Mistake(_updated(weight=lambda loss, batch: _filled(loss, 0)), "All weights are 0, and 0 / 0 is NaN: `torch.zeros_like` "
                                                                    "is not yet a weight; fill it with `batch`."),
    Mistake(_updated(weight=lambda loss, batch: _filled(loss, max(batch, 1))),
            "A batch of no images counts as one of one image: its weight is 0."),
)
