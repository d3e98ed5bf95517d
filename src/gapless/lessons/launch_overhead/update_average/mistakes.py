"""Lesson 06: averages that are updated in another way than is asked for, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake


def each(update):
    """``update(average, parameter, decay)`` for each."""
    @torch.no_grad()
    def update_average(averages, parameters, decay):
        for average, parameter in zip(averages, parameters):
            update(average, parameter, decay)

    return update_average


def grouped(update):
    """``update(averages, parameters, decay)`` for those of one dtype each."""
    @torch.no_grad()
    def update_average(averages, parameters, decay):
        lists = {}
        for average, parameter in zip(averages, parameters):
            pair = lists.setdefault(average.dtype, ([], []))
            pair[0].append(average)
            pair[1].append(parameter.to(average.dtype))
        for pair in lists.values():
            update(*pair, decay)

    return update_average


@torch.no_grad()
def _new_ones(averages, parameters, decay):
    return [average * decay + parameter * (1 - decay) for average, parameter in zip(averages, parameters)]


@torch.no_grad()
def _by_first_dtype(averages, parameters, decay):
    parameters = list(parameters)
    if averages:
        kept = [place for place, average in enumerate(averages) if average.dtype == averages[0].dtype]
        torch._foreach_mul_([averages[place] for place in kept], decay)
        torch._foreach_add_([averages[place] for place in kept], [parameters[place] for place in kept], alpha=1 - decay)


@torch.no_grad()
def _used_up(averages, parameters, decay):
    dtypes = {parameter.dtype for parameter in parameters}
    for dtype in dtypes:
        for average, parameter in zip(averages, parameters):
            if parameter.dtype == dtype:
                average.lerp_(parameter.to(average.dtype), 1 - decay)


def _changes_parameters(averages, parameters, decay):
    torch._foreach_mul_(averages, decay)
    torch._foreach_mul_(parameters, 1 - decay)
    torch._foreach_add_(averages, parameters)


def _with_history(averages, parameters, decay):
    for average, parameter in zip(averages, parameters):
        average.lerp_(parameter.to(average.dtype), 1 - decay)


@torch.no_grad()
def _in_the_loop(averages, parameters, decay):
    lists = {}
    for average, parameter in zip(averages, parameters):
        pair = lists.setdefault(average.dtype, ([], []))
        pair[0].append(average)
        pair[1].append(parameter.to(average.dtype))
        for pair in lists.values():
            torch._foreach_lerp_(*pair, 1 - decay)


_TURNED = ("The two shares are the wrong way round: `decay` is the part of the old average that is kept. "
           "`torch._foreach_lerp_(averages, parameters, weight)` takes the *new* one's share, `1 - decay`.")
AVERAGE_MISTAKES = (
    Mistake(each(lambda average, parameter, decay: average.mul_(1 - decay).add_(parameter, alpha=decay)), _TURNED),
    Mistake(each(lambda average, parameter, decay: average.mul_(decay).add_(parameter)), (
        "The parameter is added whole: its share is `1 - decay`.")),
    Mistake(each(lambda average, parameter, decay: average.add_(parameter, alpha=1 - decay)), (
        "The old average is kept whole: `decay` of it is left.")),
    Mistake(each(lambda average, parameter, decay: average.mul_(decay).add_(parameter, alpha=decay)), (
        "Both shares are `decay`: they have to add up to 1.")),
    Mistake(each(lambda average, parameter, decay: average.copy_(parameter)), (
        "The average is the parameter now: nothing of the old one is left.")),
    Mistake(each(lambda average, parameter, decay: average.add_(parameter).div_(2)), (
        "That is the mean of the two, whatever `decay` says.")),
    Mistake(_new_ones, ("The averages that were given are as before: what you computed is in new tensors, which nobody "
                        "takes. Change them in place; the names of in-place functions end in `_`.")),
    Mistake(grouped(_changes_parameters), ("The parameters themselves were scaled: the network is another one now. Only the "
                                           "averages may change; `alpha=` scales what is added.")),
    Mistake(_by_first_dtype, ("Only the averages of the first dtype were updated: each dtype needs a list of its own, and "
                              "each list its call.")),
    Mistake(_with_history, ("The averages now belong to autograd's graph, which becomes longer with each update and keeps "
                            "all of its memory: put `@torch.no_grad()` above the function.")),
    Mistake(_in_the_loop, ("The first averages are updated again and again: is the call that takes the lists still inside "
                           "the loop that makes them?")),
    Mistake(each(lambda average, parameter, decay: average.copy_(decay * average + (1 - decay) * parameter)), (
        "`(1 - decay) * parameter` is rounded to the parameter's dtype, three digits in float16: make it the average's "
        "dtype first, `parameter.to(average.dtype)`.")),
    Mistake(_used_up, ("The parameters may come as an iterator, which can be gone through once: after that it is empty. "
                       "`parameters = list(parameters)` first, or one loop.")),
    Mistake(lambda averages, parameters, decay: None, "No average has changed: was the work done on copies?"),
)
