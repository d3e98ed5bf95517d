"""Lesson 00: how ``train`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ..workload import LEARNING_RATE, make_network


def ask_train(function, given, device):
    """What ``function`` learns on the case's batches; it notes each line that is logged."""
    weights = given.inputs["weights"]
    with torch.device("meta"):
        model = make_network(1, weights[0].shape[1])
    for layer, name, weight in zip((model[0], model[0], model[2], model[2]), ("weight", "bias") * 2, weights):
        setattr(layer, name, nn.Parameter(weight))
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE, given.options.get("momentum", 0.0))
    batches = list(zip(given.inputs["x"], given.inputs["y"]))

    def log(text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"log takes a line of text, not a {type(text).__name__}")
        given.note(text)

    yield
    function(model, optimizer, batches, given.options["limit"], given.options["every"], log)
    yield
    return {"weights": [parameter.detach() for parameter in model.parameters()], "training mode": model.training}
