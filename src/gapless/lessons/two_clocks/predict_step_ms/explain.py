"""Lesson 00: why an answer to ``predict_step_ms`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import math

import torch

from ....course.evidence import Case
from ..explain import no_number
from ..stage import ANSWER
from .stage import Rates, numbers, program_of, rates_of


def _mistakes(flops, bytes, launches, card: Rates):
    """(prediction in ms, why it is wrong), the likeliest first."""
    rows = list(zip(flops, bytes, launches))
    compute = [1e3 * f / card.flops_per_s for f, _, _ in rows]
    memory = [1e3 * b / card.bytes_per_s for _, b, _ in rows]
    longer = [max(pair) for pair in zip(compute, memory)]
    floored = [max(ms, card.kernel_ms) for ms in longer]
    host_ms = sum(launches) * card.launch_ms

    def in_all(each) -> float:
        return sum(ms * n for ms, n in zip(each, launches))

    device_ms = in_all(floored)
    if len(rows) > 1:
        for totals in (max(in_all(compute), in_all(memory)), max(in_all(compute), in_all(memory), host_ms)):
            yield totals, ("You compare the totals. One kernel computes while it moves *its own* bytes, not those of the "
                           "next: take the larger time kernel by kernel, then add up")
    yield in_all(compute), "That is the arithmetic alone. A kernel also has to move its bytes, and the host has to launch it"
    yield in_all(memory), "That is the bytes alone. A kernel also has to compute, and the host has to launch it"
    yield host_ms + device_ms, ("That is the host's time plus the device's. They work at the same time: the slower of the "
                                "two sets the pace")
    yield max(in_all(longer), host_ms), "No kernel is shorter than `card.kernel_ms`, however little it does"
    yield in_all(longer), ("The host has to launch each kernel (`card.launch_ms`), and no kernel is shorter than "
                           "`card.kernel_ms`")
    yield device_ms, "That is the device's time. The host needs `card.launch_ms` for each launch, and is the slower one here"
    yield host_ms, "That is the host's time. The device needs longer here"
    if len(rows) > 1:
        yield max(in_all(compute), in_all(memory)) + host_ms, (
            "You compare the totals, and add the host's time. Take the larger of the two kernel by kernel; and the host "
            "launches while the device works, so that the slower of the two sets the pace")
        yield max(ms * n for ms, n in zip(floored, launches)), (
            "That is the longest entry alone. Kernels run one after another: add them up")
        yield max(floored), "That is the longest kernel alone. Kernels run one after another: add them up"
    yield device_ms + len(rows) * card.launch_ms, (
        "Each of the `launches[i]` kernels is launched by itself, and the host does that while the device works: the larger "
        "of the two totals counts")
    yield min(host_ms, device_ms), "That is the smaller of the two totals: the slower worker sets the pace"
    both = [max(c + m, card.kernel_ms) for c, m in zip(compute, memory)]
    yield max(in_all(both), host_ms), ("Within a kernel, computing and moving bytes happen at the same time: take the "
                                       "larger of the two times, not their sum")
    yield max(sum(floored), len(rows) * card.launch_ms), "Each entry stands for `launches[i]` kernels: multiply by it"
    yield sum(floored), "Each entry stands for `launches[i]` kernels: multiply by it"
    yield in_all([max(ms, card.launch_ms) for ms in floored]), (
        "You let each kernel wait for its own launch. The host runs ahead: compare the host's time for the *whole step* "
        "with the device's")


def prediction(case: Case, found: dict, wanted: dict) -> str | None:
    """Which wrong formula gives the number that was found."""
    own, true = found.get(ANSWER), wanted[ANSWER]
    if isinstance(own, bool) or not isinstance(own, (int, float)):
        return no_number(own)
    if math.isclose(own, true / 1e3, rel_tol=0.1):
        return ("That is in seconds: milliseconds are wanted. `f / card.flops_per_s` and `b / card.bytes_per_s` are "
                "seconds, `card.kernel_ms` and `card.launch_ms` are milliseconds.")
    rates = rates_of(torch.device(wanted["device"]))
    made = list(_mistakes(**numbers(program_of(case.options["rows"], rates)), card=rates))
    for unit, remark in ((1.0, ""), (1e-3, " And it is in seconds: milliseconds are wanted.")):
        near = [(round(abs(own - ms * unit), 9), why) for ms, why in made if math.isclose(own, ms * unit, rel_tol=1e-3)]
        if near:
            return f"{min(near, key=lambda pair: pair[0])[1]}.{remark}"  # the nearest, of equals the first
    return "Work out one kernel at a time: how long to compute, how long to move its bytes? And how long does the host need?"
