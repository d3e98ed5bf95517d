"""Lesson 03: why an answer to ``step_time_metric`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import math

import numpy as np

from ..explain import same_answer


def step_time(case, found, wanted) -> str | None:
    if not isinstance(found, dict):
        return None
    times = case.options["times"]
    first = next((name for name in wanted if not same_answer(found.get(name), wanted[name])), None)
    own = "What is kept in a Python list or number of your own, and not in a state that `add_state` has added, "
    if first == "mean":
        mean = found.get("mean")
        for words, value in _other_means(np.array(times, dtype=np.float64)):
            if isinstance(mean, float) and same_answer(mean, float(value)):
                return words
        if isinstance(mean, float) and math.isclose(mean, wanted["mean"], rel_tol=2e-3):
            return "It is near the mean, but not equal: are the times, or their sum, kept in float16?"
        if isinstance(mean, float) and min(times) <= mean <= max(times) and len(times) > 1:
            return ("It lies between the times, and is another kind of average, or leaves some of them out. Is each "
                    "counted once?")
        return "It cannot be a mean of these times: none is so large or so small. Were they summed, or their unit changed?"
    return {
        "mean after another update": "The first mean is right, but the next is not: a value that has been computed must "
                                     "not be "
                                     "kept when more comes in.",
        "mean beside a second metric": "Two metrics share what they keep: make the state again in each, not once for the "
                                       "class "
                                       "or the module.",
        "means of the metric and of a clone, updated once more": f"{own}is shared with the metric's copies.",
        "mean of a new metric, loaded with load_state_dict": f"{own}is not saved in `state_dict`.",
        **{name: f"{own}is not moved with the metric." for name in wanted if name.startswith("state is there")},
        'mean after .to("cpu")': f"{own}is not moved with the metric.",
        "mean after a reset": f"{own}is not reset by `reset`.",
        "mean under DDP": "It is right alone, but not in a process group.",
        "values of calling it twice": "`metric(time)` updates the metric, and returns the mean of this one time: leave "
                                      "`forward` to the metric.",
        "mean of two processes": "`add_state` has to say how the processes' states become one, with `dist_reduce_fx`: "
                                 "without it they are stacked, and the mean is one number for each process. "
                                 "The mean of all times is right as well as its own. A mean of means is neither.",
    }.get(first)


def _other_means(times: np.ndarray):
    """(what it is, its value)"""
    running = times[0] / 2
    for time in times[1:]:
        running = (running + time) / 2
    count, total = len(times), times.sum()
    if not times.all():
        yield "A time of 0 is left out: `if value` is false for 0. All times count.", times[times > 0].mean()
    yield "That is the median of the times. Return their mean.", np.median(times)
    yield "That is the lower median of the times. Return their mean.", np.sort(times)[(count - 1) // 2]
    yield ("The mean was halved with each new time, from 0 on, so that the last ones count most. Keep a sum and a count, as "
           "`MeanMetric` does."), running
    yield "The sum is divided by one more than there are times: does a first 0 count too?", total / (count + 1)
    if count > 1:
        yield "The sum is divided by one less than there are times: a mean divides by their number.", total / (count - 1)
        yield "The first time is left out. All of them count.", times[1:].mean()
        yield "The last time is left out. All of them count.", times[:-1].mean()
    yield "The mean was converted to a whole number (`//`, `int`): its fraction is cut off.", np.trunc(times.mean())
    yield "The mean was rounded to a whole number.", np.round(times.mean())
    if times.all():
        yield "Each time is weighted with itself: no weight is wanted.", (times**2).sum() / times.sum()
        yield "That is the harmonic mean: of the times themselves a mean is wanted.", count / (1 / times).sum()
        yield "That is the geometric mean. Return the arithmetic mean.", np.exp(np.log(times).mean())
