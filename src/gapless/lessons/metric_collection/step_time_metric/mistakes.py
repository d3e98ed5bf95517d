"""Lesson 03: the usual wrong versions of ``step_time_metric``, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake
from ..stage import torchmetrics


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
    Mistake(_named("SumMetric"), "That is the sum of the step times. Return their mean."),
    Mistake(_named("MaxMetric"), "That is the longest step. Return the mean."),
    Mistake(_named("MinMetric"), "That is the shortest step. Return the mean."),
    Mistake(_named("CatMetric"), "Those are the step times themselves. Return their mean."),
    *(Mistake(_named("RunningMean", window=window), f"That is the mean of the last {words} steps: `RunningMean` forgets. "
                                                    "The mean of all is wanted.")
      for window, words in ((5, "five"), (100, "hundred"))),
    Mistake(_kept(_average), _LIST),
    Mistake(_kept(_average, cleared=True), _LIST),
    Mistake(_kept(lambda times: times[-1]), "That is the last step's time. Return the mean of all."),
    Mistake(_never_reset, "After `reset` the earlier times still count: leave `reset` to the metric."),
    Mistake(_mean_of_means, "The mean is averaged with each new time, so that the last ones count most. Keep a sum and a "
                            "count, as `MeanMetric` does."),
    Mistake(_changed_times(lambda value: 1e3 * value), "A thousand times too large: average the times as they come in. "
                                                       "Leave the unit alone."),
    Mistake(_changed_times(lambda value: value / 1e3), "A thousand times too small: average the times as they come in. "
                                                       "Leave the unit alone."),
    Mistake(_changed_times(int), "The times were converted to whole numbers on the way (`int`, `//`, `.long()`): their "
                                 "fractions are cut off."),
    Mistake(_changed_times(round), "The times were rounded to whole numbers on the way."),
    Mistake(_changed_times(lambda value: torch.tensor(float(value), dtype=torch.float16)),
            "The times were cast to float16, which keeps three digits: leave them float32."),
    Mistake(_changed_times(lambda value: torch.tensor(float(value), dtype=torch.bfloat16)),
            "The times were cast to bfloat16, which keeps two to three digits: leave them float32."),
    Mistake(_changed_times(lambda value: 1 / value if value else 0.0), "That is a mean of steps per time: leave the "
                                                                       "times as they are."),
)
