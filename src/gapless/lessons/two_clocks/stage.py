"""Lesson 00: what an exercise's cell finds defined, and how each exercise's function is called."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ...measure.device import clock_ms, synchronize
from .rates import numbers, program_of, rates_of
from .workload import LEARNING_RATE, PROGRAMS, long_kernels, make_network

ANSWER = "ms a step"


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "clock_ms": clock_ms, "synchronize": synchronize}


def ask_time_step(function, given, device):
    """What ``function`` says of the case's program."""
    options = given.options
    step = PROGRAMS[options["program"]](device, options["size"], options["warmup"])
    synchronize(device)
    if options["busy"]:
        earlier = long_kernels(device, 4000, 0)
        for _ in range(20):
            earlier()
    calls = 0

    def counted():
        nonlocal calls
        calls += 1
        return step()

    yield
    found = function(counted, options["warmup"], options["steps"], device)
    yield
    synchronize(device)
    return {ANSWER: found, "calls of step": calls, "device": str(device)}


def ask_predict(function, given, device):
    """What ``function`` predicts for the case's program on the device's card."""
    rates = rates_of(device)
    program = numbers(program_of(given.options["rows"], rates))
    yield
    found = function(**program, card=rates)
    yield
    return {ANSWER: found, "device": str(device)}


def ask_train(function, given, device):
    """What ``function`` learns on the case's batches; it notes each line that is logged."""
    weights = given.inputs["weights"]
    with torch.device("meta"):
        model = make_network(1, weights[0].shape[1])
    for layer, name, weight in zip((model[0], model[0], model[2], model[2]), ("weight", "bias") * 2, weights):
        setattr(layer, name, nn.Parameter(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    batches = list(zip(given.inputs["x"], given.inputs["y"]))

    def log(text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"log takes a line of text, not a {type(text).__name__}")
        given.note(text)

    yield
    function(model, optimizer, batches, given.options["limit"], given.options["every"], log)
    yield
    return {"weights": [parameter.detach() for parameter in model.parameters()]}
