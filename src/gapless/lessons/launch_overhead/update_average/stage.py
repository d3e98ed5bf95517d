"""Lesson 06: how ``update_average`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ....course.plain import Unusable, same_objects
from ....vgpu import host_clock
from ..stage import in_bfloat16, some

AVERAGES, PARAMETERS = "averages", "parameters"
TRACKED, MOVED = "averages that require a gradient", "averages in new memory"
REPLACED, FIRST = "parameters of another dtype, or in new memory", "averages after the first of the calls"


def ask_update_average(function, given, device):
    """Averages after some updates, while the parameters become smaller. ``frozen``: those that are trained no longer;
    ``renewed``: each step has new parameters, as a network has that was loaded again, and the lists are turned round.
    Raises Unusable where only a later step goes wrong."""
    options = given.options
    averages = in_bfloat16(given.inputs["averages"], options["bfloat16"])
    parameters = [nn.Parameter(each, requires_grad=place not in options["frozen"])
                  for place, each in enumerate(in_bfloat16(given.inputs["parameters"], options["bfloat16"]))]
    held = list(averages)  # one list for all steps, as in a training
    places, of_parameters = list(map(_place, averages)), list(map(_place, parameters))
    first = None
    yield
    for step in range(options["steps"]):
        before, passed = list(held), list(parameters)
        try:
            function(held, iter(parameters) if options["iterator"] else passed, options["decay"])
        except Exception as error:
            if not step or not options["renewed"]:
                raise
            said = str(error).partition("\n")[0].rstrip(".")
            raise Unusable(f"call {step + 1} raised {type(error).__name__}: {said}. That call gets the averages in another "
                           "order, and other parameters. Group them again in each call, and keep nothing from one call to "
                           "the next.") from error
        if not step and options["steps"] > 1:
            first = [some(average.detach()).clone() for average in averages]
        if step + 1 < options["steps"] and options["renewed"]:
            parameters = [nn.Parameter(0.5 * parameter.detach()) for parameter in reversed(parameters)]
            of_parameters = list(map(_place, parameters))
            held.reverse()
        elif step + 1 < options["steps"]:
            with torch.no_grad():
                for parameter in parameters:
                    parameter.mul_(0.5)
    yield
    with host_clock.uncounted():  # to look here may be timed
        same_objects("averages", held, before)
        same_objects("parameters", passed, parameters)
        replaced = sum(_place(parameter) != place for parameter, place in zip(parameters, of_parameters))
        moved = sum(_place(average) != place for average, place in zip(averages, places))
    return {TRACKED: sum(average.requires_grad for average in averages), MOVED: moved, REPLACED: replaced,
            AVERAGES: [some(average.detach()) for average in averages],
            PARAMETERS: [some(parameter) for parameter in parameters], FIRST: first}


def _place(tensor: torch.Tensor) -> tuple[torch.dtype, int]:
    return tensor.dtype, tensor.data_ptr()
