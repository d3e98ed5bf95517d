"""Lesson 06: how ``update_average`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ..stage import some

AVERAGES, PARAMETERS = "averages", "parameters"
TRACKED = "averages that require a gradient"


def ask_update_average(function, given, device):
    """Averages after some updates, while the parameters become smaller."""
    options = given.options
    averages = given.inputs["averages"]
    parameters = [nn.Parameter(each) for each in given.inputs["parameters"]]
    yield
    for step in range(options["steps"]):
        function(list(averages), iter(parameters) if options["iterator"] else list(parameters), options["decay"])
        if step + 1 < options["steps"]:
            with torch.no_grad():
                for parameter in parameters:
                    parameter.mul_(0.5)
    yield
    return {TRACKED: sum(average.requires_grad for average in averages),
            AVERAGES: [some(average.detach()) for average in averages],
            PARAMETERS: [some(parameter) for parameter in parameters]}
