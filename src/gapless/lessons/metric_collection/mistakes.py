"""Lesson 03: known wrong answers, which tell a learner why one is wrong. Those about averages are in ``wrong_averages``."""

from __future__ import annotations

import torch

from ...course.mistakes import Mistake
from .functions import torchmetrics
from .wrong_averages import COLLECT, EVALUATE

__all__ = ["COLLECT", "EVALUATE", "STEP_TIME", "SUPPRESS", "UPDATE_LOSS"]


# -- exercise 1 --------------------------------------------------------------------------------------


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
_CUT = "A loss was made a whole number on the way: its fraction is cut off. Give the loss as it is."

UPDATE_LOSS = (
    Mistake(_updated(weight=lambda loss, batch: None),
            "That is the mean without the weights: a last batch of three images counts as much as a full one. A weight of "
            "ones is no weight either: each loss counts `batch` times."),
    Mistake(_updated(lambda loss, batch: loss * batch, lambda loss, batch: None), _TWICE),
    Mistake(_updated(lambda loss, batch: loss * batch), _TWICE),
    Mistake(lambda metric, loss, batch: None, "The metric took nothing in: was `metric.update` called, on this metric?"),
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
    Mistake(_finite_only, "A loss of inf was left out. Only NaN is left out: an inf has to be seen in the mean."),
    Mistake(_updated(weight=lambda loss, batch: loss * 0 + batch),
            "The weight was computed from the loss: inf × 0 is NaN, so the weight is NaN and the loss is left out. Use only "
            "the loss's form, not its value: `torch.full_like`."),
    Mistake(_updated(lambda loss, batch: _filled(loss, batch), lambda loss, batch: loss),
            "The loss and its weight have changed places: `update(value, weight)`."),
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


# -- exercise 2 --------------------------------------------------------------------------------------


def _checked(change):
    """suppress_nan_check with ``change(metric, x, weight)``, of two tensors, as the method that checks."""

    def suppress_nan_check(MetricClass):
        class Wrong(MetricClass):
            def _cast_and_nan_check_input(self, x, weight=None):
                x = torch.as_tensor(x, device=self.device)
                weight = torch.ones_like(x) if weight is None else torch.as_tensor(weight, device=self.device)
                return change(self, x, weight)

        return Wrong

    return suppress_nan_check


def _cast(change):
    return _checked(lambda metric, x, weight: change(x.to(metric.dtype), weight.to(metric.dtype)))


def _to(kind):
    return _checked(lambda metric, x, weight: (x.to(kind), weight.to(kind)))


def _disabled(MetricClass):
    class Disabled(MetricClass):
        def __init__(self, *args, **options):
            super().__init__(*args, **{**options, "nan_strategy": "disable"})

    return Disabled


_NO_WEIGHTS = ("That is the mean without the weights. `nan_strategy=\"disable\"` does this in TorchMetrics 1.9.0: it "
               "replaces "
               "the weights that it is given by ones, and says nothing. Replace the method that checks, and hand the "
               "weights on.")

SUPPRESS = (
    Mistake(_disabled, _NO_WEIGHTS),
    Mistake(_cast(lambda x, weight: (x, torch.ones_like(x))), _NO_WEIGHTS),
    Mistake(_cast(lambda x, weight: (x * weight, weight)),
            "The values were multiplied by their weights before: `MeanMetric.update` does that itself. Return both as they "
            "are."),
    Mistake(_cast(lambda x, weight: (x * weight, torch.ones_like(weight))),
            "The values were multiplied by their weights and the weights replaced by ones: then the sum is divided by the "
            "count, not by the sum of the weights. Return both as they are."),
    Mistake(_cast(lambda x, weight: (weight, x)), "Values and weights have changed places: return `x, weight`."),
    Mistake(_cast(lambda x, weight: (x, torch.zeros_like(x))), "The weights returned are 0, and 0 / 0 is NaN: without a "
                                                               "weight each value counts once, `torch.ones_like(x)`."),
    Mistake(_cast(lambda x, weight: (torch.zeros_like(x), torch.zeros_like(x))), "Values and weights come back as 0: is "
                                                                                 "a mask, or `torch.where`, the wrong "
                                                                                 "way round? `torch.where(isnan, 0, x)` "
            "puts 0 where there is a NaN."),
    Mistake(_cast(lambda x, weight: (x, weight / weight.sum())),
            "The weights were divided by their sum: then each update counts alike, however much it weighs."),
    Mistake(_cast(lambda x, weight: (x.mean(), weight.mean())),
            "The values of an update were averaged first, and their weights lost with it. Return all of them."),
    Mistake(_cast(lambda x, weight: (x.nan_to_num(), weight)),
            "An inf became a large number: `nan_to_num` replaces inf too. Leave inf in, or name `posinf` and `neginf`."),
    Mistake(_cast(lambda x, weight: (torch.where(x.isfinite(), x, 0.0), torch.where(x.isfinite(), weight, 0.0))),
            "An inf was left out as if it were NaN. Only of NaN you may decide; an inf counts."),
    Mistake(_cast(lambda x, weight: (torch.where(x.isfinite(), x, 0.0), weight)),
            "An inf was replaced by 0. Only of NaN you may decide; an inf counts."),
    Mistake(_cast(lambda x, weight: (torch.where(x.isnan(), x, 0.0), weight)),
            "`torch.where` is the wrong way round: `torch.where(isnan, 0, x)` puts 0 where there is a NaN."),
    Mistake(_cast(lambda x, weight: (x, weight.abs().ceil().clamp(max=1))),
            "The weights were made truth values: a weight of 3 counts as 1."),
    Mistake(_cast(lambda x, weight: (x, weight.trunc())),
            "The weights were made whole numbers on the way: 0.7 became 0. Cast them to `self.dtype`."),
    Mistake(_cast(lambda x, weight: (x.trunc(), weight)),
            "The values were made whole numbers on the way (`.long()`, `int`): cast them to `self.dtype`."),
    Mistake(_cast(lambda x, weight: (x.trunc(), weight.trunc())),
            "Values and weights were made whole numbers on the way (`.long()`, `int`): cast them to `self.dtype`."),
    Mistake(_cast(lambda x, weight: (x, weight**2)), "The weights are squared: are they multiplied in twice?"),
    Mistake(_cast(lambda x, weight: (x.flatten()[:1], weight.flatten()[:1])), "Only the first value of each update is "
                                                                              "taken in."),
    Mistake(_checked(lambda metric, x, weight: (x, weight)),
            "The values are not cast: `SumMetric` and the like count in `self.dtype`, and whole numbers or float16 have to "
            "be made that first (`x.to(self.dtype)`)."),
    Mistake(_checked(lambda metric, x, weight: (x, weight.to(metric.dtype))),
            "The values are not cast: `CatMetric` keeps them as they are returned. Make them `self.dtype` first "
            "(`x.to(self.dtype)`)."),
    Mistake(_to(torch.float32), "The values were cast to float32, where the metric was set to another dtype "
                                "(`set_dtype`): a number too large for it becomes inf. Cast to `self.dtype`."),
    Mistake(_to(torch.float64), "The values were cast to float64: a metric's values are in its own dtype, `self.dtype`."),
    Mistake(_to(torch.float16), "The values were cast to float16, which keeps three digits: cast to `self.dtype`."),
    Mistake(_to(torch.bfloat16), "The values were cast to bfloat16, which keeps two to three digits: cast to `self.dtype`."),
)


# -- exercise 4 --------------------------------------------------------------------------------------


def _local(metric_class, **options):
    return lambda device: metric_class(sync_on_compute=False, **options)


def _changed_times(change):
    def step_time_metric(device):
        class Mean(torchmetrics().MeanMetric):
            def update(self, value, weight=None):
                super().update(change(value), weight)

        return Mean(sync_on_compute=False)

    return step_time_metric


def _kept(compute, add=lambda times, value: times.append(value), cleared: bool = False):
    """A metric whose state is a Python list."""

    def step_time_metric(device):
        class Mean(torchmetrics().Metric):
            def __init__(self):
                super().__init__(sync_on_compute=False)
                self.times = []

            def update(self, value):
                add(self.times, value)

            def compute(self):
                return torch.tensor(compute(self.times) if self.times else 0.0)

            def reset(self):
                super().reset()
                if cleared:
                    self.times.clear()

        return Mean()

    return step_time_metric


def _running(device):
    return torchmetrics().aggregation.RunningMean(sync_on_compute=False)


def _never_reset(device):
    class Mean(torchmetrics().MeanMetric):
        def reset(self):
            pass

    return Mean(sync_on_compute=False)


def _mean_of_means(device):
    class Mean(torchmetrics().MeanMetric):
        def update(self, value, weight=None):
            before = self.mean_value / self.weight.clamp(min=1)
            self.mean_value = (before + value) / (2 if self.weight else 1)
            self.weight = torch.ones(())

    return Mean(sync_on_compute=False)


def _named(name: str, **options):
    return lambda device: getattr(torchmetrics(), name)(sync_on_compute=False, **options)


_LIST = ("The times are kept in something of your own, a Python list or number, and no state of the metric: `reset`, "
         "`state_dict`, `.to` and DDP know only what `add_state` has added. `MeanMetric` has a state already.")


def _average(times):
    return sum(times) / len(times)


STEP_TIME = (
    Mistake(_named("SumMetric"), "That is the sum of the step times. Their mean is wanted."),
    Mistake(_named("MaxMetric"), "That is the longest step. The mean is wanted."),
    Mistake(_named("MinMetric"), "That is the shortest step. The mean is wanted."),
    Mistake(_named("CatMetric"), "Those are the step times themselves. Their mean is wanted."),
    Mistake(_running, "That is the mean of the last five steps: `RunningMean` forgets. The mean of all is wanted."),
    Mistake(_kept(_average), _LIST),
    Mistake(_kept(_average, cleared=True), _LIST),
    Mistake(_kept(lambda times: times[-1]), "That is the last step's time. The mean of all is wanted."),
    Mistake(_never_reset, "After `reset` the earlier times still count: leave `reset` to the metric."),
    Mistake(_mean_of_means, "The mean is averaged with each new time, so that the last ones count most. Keep a sum and a "
                            "count, as `MeanMetric` does."),
    Mistake(_changed_times(lambda value: 1e3 * value), "A thousand times too large: the times come in as they are to be "
                                                       "averaged. Leave the unit alone."),
    Mistake(_changed_times(lambda value: value / 1e3), "A thousand times too small: the times come in as they are to be "
                                                       "averaged. Leave the unit alone."),
    Mistake(_changed_times(int), "The times were made whole numbers on the way (`int`, `//`, `.long()`): their fractions "
                                 "are "
                                 "cut off."),
    Mistake(_changed_times(round), "The times were rounded to whole numbers on the way."),
    Mistake(_changed_times(lambda value: torch.tensor(float(value), dtype=torch.float16)),
            "The times were cast to float16, which keeps three digits: leave them float32."),
    Mistake(_changed_times(lambda value: torch.tensor(float(value), dtype=torch.bfloat16)),
            "The times were cast to bfloat16, which keeps two to three digits: leave them float32."),
    Mistake(_changed_times(lambda value: 1 / value if value else 0.0), "That is a mean of steps per time: leave the "
                                                                       "times as they are."),
)
