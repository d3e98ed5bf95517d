"""Lesson 00: how ``time_step`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from ....measure.device import synchronize
from ..stage import ANSWER
from ..workload import PROGRAMS, long_kernels


def ask_time_step(function, given, device):
    """What ``function`` says of the case's program."""
    options = given.options
    step = PROGRAMS[options["program"]](device, options["size"], options["warmup"], options["steps"])
    synchronize(device)
    if options["busy"]:
        earlier = long_kernels(device, 4000)
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
