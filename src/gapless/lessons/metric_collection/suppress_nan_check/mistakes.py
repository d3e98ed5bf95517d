"""Lesson 03: the usual wrong versions of ``suppress_nan_check``, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake


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
               "the weights that it is given by ones, without a message. Replace the method that checks, and hand the "
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
    Mistake(_cast(lambda x, weight: (weight, x)), "Values and weights are swapped: return `x, weight`."),
    Mistake(_cast(lambda x, weight: (x, torch.zeros_like(x))), "The weights returned are 0, and 0 / 0 is NaN: without a "
                                                               "weight each value counts once, `torch.ones_like(x)`."),
    Mistake(_cast(lambda x, weight: (torch.zeros_like(x), torch.zeros_like(x))), "Values and weights come back as 0: is "
                                                                                 "a mask, or `torch.where`, the wrong "
                                                                                 "way round? `torch.where(isnan, 0, x)` "
            "puts 0 where there is a NaN."),
    Mistake(_cast(lambda x, weight: (x, weight / weight.sum())),
            "The weights were divided by their sum: then each update counts the same, however much it weighs."),
    Mistake(_cast(lambda x, weight: (x.mean(), weight.mean())),
            "The values of an update were averaged first, and their weights lost with it. Return all of them."),
    Mistake(_cast(lambda x, weight: (x.nan_to_num(), weight)),
            "An inf became a large number: `nan_to_num` replaces inf too. Leave inf in, or name `posinf` and `neginf`."),
    Mistake(_cast(lambda x, weight: (torch.where(x.isfinite(), x, 0.0), torch.where(x.isfinite(), weight, 0.0))),
            "An inf was left out as if it were NaN. You may decide only about NaN; an inf counts."),
    Mistake(_cast(lambda x, weight: (torch.where(x.isfinite(), x, 0.0), weight)),
            "An inf was replaced by 0. You may decide only about NaN; an inf counts."),
    Mistake(_cast(lambda x, weight: (torch.where(x.isnan(), x, 0.0), weight)),
            "`torch.where` is the wrong way round: `torch.where(isnan, 0, x)` puts 0 where there is a NaN."),
    Mistake(_cast(lambda x, weight: (x, weight.abs().ceil().clamp(max=1))),
            "The weights were converted to bools: a weight of 3 counts as 1."),
    Mistake(_cast(lambda x, weight: (x, weight.trunc())),
            "The weights were converted to whole numbers on the way: 0.7 became 0. Cast them to `self.dtype`."),
    Mistake(_cast(lambda x, weight: (x.trunc(), weight)),
            "The values were converted to whole numbers on the way (`.long()`, `int`): cast them to `self.dtype`."),
    Mistake(_cast(lambda x, weight: (x.trunc(), weight.trunc())),
            "Values and weights were converted to whole numbers on the way (`.long()`, `int`): cast them to `self.dtype`."),
    Mistake(_cast(lambda x, weight: (x, weight**2)), "The weights are squared: are they multiplied in twice?"),
    Mistake(_cast(lambda x, weight: (x.flatten()[:1], weight.flatten()[:1])), "Only the first value of each update is "
                                                                              "taken in."),
    Mistake(_checked(lambda metric, x, weight: (x, weight)),
            "The values are not cast: `SumMetric` and its siblings count in `self.dtype`, and whole numbers or float16 "
            "have to be made that first (`x.to(self.dtype)`)."),
    Mistake(_checked(lambda metric, x, weight: (x, weight.to(metric.dtype))),
            "The values are not cast: `CatMetric` keeps them as they are returned. Make them `self.dtype` first "
            "(`x.to(self.dtype)`)."),
    Mistake(_to(torch.float32), "The values were cast to float32, where the metric was set to another dtype "
                                "(`set_dtype`): a number too large for it becomes inf. Cast to `self.dtype`."),
    Mistake(_to(torch.float64), "The values were cast to float64: a metric's values are in its own dtype, `self.dtype`."),
    Mistake(_to(torch.float16), "The values were cast to float16, which keeps three digits: cast to `self.dtype`."),
    Mistake(_to(torch.bfloat16), "The values were cast to bfloat16, which keeps two to three digits: cast to `self.dtype`."),
)
