"""Lesson 06: how ``update_average`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ..stage import some

AVERAGES, PARAMETERS = "averages", "parameters"
TRACKED, MOVED = "averages that require a gradient", "averages in new memory"


def ask_update_average(function, given, device):
    """Averages after some updates, while the parameters become smaller. ``frozen``: those that are trained no longer;
    ``renewed``: each step has new parameters, as a network has that was loaded again."""
    options = given.options
    averages = given.inputs["averages"]
    parameters = [nn.Parameter(each, requires_grad=place not in options["frozen"])
                  for place, each in enumerate(given.inputs["parameters"])]
    places = [average.data_ptr() for average in averages]
    held = list(averages)  # one list for all steps, as in a training
    yield
    for step in range(options["steps"]):
        function(held, iter(parameters) if options["iterator"] else list(parameters), options["decay"])
        if step + 1 < options["steps"] and options["renewed"]:
            parameters = [nn.Parameter(0.5 * parameter.detach()) for parameter in parameters]
        elif step + 1 < options["steps"]:
            with torch.no_grad():
                for parameter in parameters:
                    parameter.mul_(0.5)
    yield
    return {TRACKED: sum(average.requires_grad for average in averages),
            MOVED: sum(average.data_ptr() != place for average, place in zip(averages, places)),
            AVERAGES: [some(average.detach()) for average in averages],
            PARAMETERS: [some(parameter) for parameter in parameters]}
