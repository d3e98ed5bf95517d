"""Lesson 00: how ``predict_step_ms`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ....course.plain import left_alone
from ..stage import ANSWER, card_for, kernels_s

FLOAT_BYTES = 4
SMALL = 1000  # elements of a kernel that is as short as a kernel can be
# A large product is SIDE×depth times depth×SIDE. With one side, all products cut into the same tiles and reach about the
# same rate, however deep; squares of any size would differ by a quarter.
SIDE, DEPTH = 4096, 2048
DEPTHS = 32  # a depth is a multiple of it, as in a network
LARGE_SUM = 2**27  # numbers: far more than a card's L2 cache holds


@dataclass(frozen=True)
class Rates:
    """What a card and its host reach. ``flops_per_s``: large float32 matrix products; ``bytes_per_s``: reading and writing
    the card's memory, in a large sum; ``kernel_ms``: the shortest kernel; ``launch_ms``: what an operator with one kernel
    costs the host, with its launch (an ``add``; one that goes through cuBLAS costs more, ``Host.library_op_ns``)."""

    key: str
    name: str
    flops_per_s: float
    bytes_per_s: float
    kernel_ms: float
    launch_ms: float


def rates_of(device: torch.device) -> Rates:
    """The figures to predict with: what a large product and a large sum reach on the virtual GPU."""
    card = card_for(device)
    product, large_sum = Operator("matmul", SIDE, 1, DEPTH), Operator("add", LARGE_SUM, 1)
    return Rates(card.key, card.name, product.flops / kernels_s(card, "mm", *product.shapes),
                 large_sum.bytes / kernels_s(card, "add", *large_sum.shapes), card.kernel_floor_ns / 1e6,
                 (card.host.op_ns + card.host.launch_ns) / 1e6)


@dataclass(frozen=True)
class Operator:
    """``times`` calls of one operator on float32: ``matmul`` of a ``size``×``inner`` with an ``inner``×``size`` matrix
    (``inner`` None: square), ``add`` of two vectors of ``size`` numbers, or ``copy`` of one."""

    name: str
    size: int
    times: int
    inner: int | None = None

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the inputs."""
        if self.name != "matmul":
            return ((self.size,),) * (1 if self.name == "copy" else 2)
        inner = self.inner or self.size
        return (self.size, inner), (inner, self.size)

    @property
    def flops(self) -> float:
        """Of one call. A product of matrices takes ``inner`` multiply-adds for each number of its result."""
        if self.name == "copy":
            return 0.0
        return 2.0 * self.size**2 * (self.inner or self.size) if self.name == "matmul" else float(self.size)

    @property
    def bytes(self) -> float:
        """Of one call: inputs read, one result written."""
        result = self.size**2 if self.name == "matmul" else self.size
        return float(FLOAT_BYTES) * (sum(math.prod(shape) for shape in self.shapes) + result)


def numbers(program: list[Operator]) -> dict[str, list]:
    """The program as ``predict_step_ms`` gets it: an entry for each operator."""
    return {"flops": [o.flops for o in program], "bytes": [o.bytes for o in program], "launches": [o.times for o in program]}


def product_of(ms: float, times: int, rates: Rates) -> Operator:
    """A matrix product that takes about ``ms`` on the card."""
    depth = ms * 1e-3 * rates.flops_per_s / (2 * SIDE**2)
    return Operator("matmul", SIDE, times, max(1, round(depth / DEPTHS)) * DEPTHS)


def thin_product_of(ms: float, times: int, rates: Rates) -> Operator:
    """A matrix product that takes about ``ms`` to compute and a third of it to move its bytes. (On a device it takes up to
    a third more, as it cannot write all of its result while it computes.)"""
    inner = max(1, round(6 * rates.flops_per_s / rates.bytes_per_s / 8)) * 8  # FLOPs ÷ bytes is about half of it
    return Operator("matmul", round((ms * 1e-3 * rates.flops_per_s / (2 * inner)) ** 0.5 / 128) * 128, times, inner)


def sum_of(ms: float, times: int, rates: Rates) -> Operator:
    """A sum of two vectors that takes about ``ms`` on the card."""
    return Operator("add", round(ms * 1e-3 * rates.bytes_per_s / (3 * FLOAT_BYTES)), times)


def copy_of(ms: float, times: int, rates: Rates) -> Operator:
    """A copy of a vector that takes about ``ms`` on the card."""
    return Operator("copy", round(ms * 1e-3 * rates.bytes_per_s / (2 * FLOAT_BYTES)), times)


def program_of(rows: list, rates: Rates) -> list[Operator]:
    """A program in the words of a case (``cases.prediction_cases``), sized for the card."""
    host_ms = rates.launch_ms * sum(times for *_, times in rows)
    make = {"matmul": product_of, "thin": thin_product_of, "add": sum_of, "copy": copy_of}
    program = []
    for name, length, times in rows:
        if length is None:
            program.append(Operator(name, SMALL, times))
        else:
            ms = length
            if isinstance(length, str):
                number, unit = length.split()
                ms = float(number) * {"share": host_ms, "launches": rates.launch_ms}[unit]
            program.append(make[name](ms, times, rates))
    return program


def ask_predict(function, given, device):
    """What ``function`` predicts for the case's program on the device's card."""
    rates = rates_of(device)
    program = numbers(program_of(given.options["rows"], rates))
    own = {name: list(values) for name, values in program.items()}
    yield
    found = function(**own, card=rates)
    yield
    for name, values in own.items():
        left_alone(name, values, program[name])
    return {ANSWER: found, "device": str(device)}
