"""What the virtual GPU says of measured operators: the program that was measured, run without values."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .. import vgpu
from ..vgpu.core.tuning import autotuned
from ..vgpu.hardware.cards import fitted
from ..vgpu.hardware.cards.specs import Card, Host
from ..vgpu.hardware.times import interconnect, uncertainty
from . import hosts
from .measured import AllReduce, Operator


class Predicted(NamedTuple):
    """A time, and the share of it by which it is uncertain (:mod:`gapless.vgpu.hardware.times.uncertainty`)."""

    ms: float
    uncertainty: float


# A host that costs nothing: what is left on the stream are the kernels.
NO_HOST = Host(**{field.name: 0 for field in dataclasses.fields(Host) if field.name.endswith("_ns")})

Call = Callable[[], object]


def _product(device, b, m, n, k) -> Call:
    # The depth is NeuSight's n, and k are the columns (its neusight/Dataset/collect.py).
    left, right = torch.empty(b, m, n, device=device), torch.empty(b, n, k, device=device)
    return lambda: torch.bmm(left, right)


def _linear(device, b, m, n, k) -> Call:
    x, weight, bias = (torch.empty(*shape, device=device) for shape in ((b, m, n), (k, n), (k,)))
    return lambda: F.linear(x, weight, bias)


def _convolution(device, b, channels_in, channels_out, window, size, stride, padding) -> Call:
    x = torch.empty(b, channels_in, size, size, device=device)
    weight = torch.empty(channels_out, channels_in, window, window, device=device)
    return lambda: F.conv2d(x, weight, None, stride, padding)


def _of_one(function) -> Callable[..., Call]:
    def make(device, b, h) -> Call:
        x = torch.empty(b, h, device=device)
        return lambda: function(x)

    return make


def _of_two(function) -> Callable[..., Call]:
    def make(device, b, h) -> Call:
        x, y = torch.empty(b, h, device=device), torch.empty(b, h, device=device)
        return lambda: function(x, y)

    return make


def _layer_norm(device, b, h) -> Call:
    x, weight, bias = torch.empty(b, h, device=device), torch.empty(h, device=device), torch.empty(h, device=device)
    return lambda: F.layer_norm(x, (h,), weight, bias)


# Operator → a function of the device and the sizes (:data:`.measured.OPERATORS`), which gives what was measured.
PROGRAMS: dict[str, Callable[..., Call]] = {
    "bmm": _product, "linear": _linear, "conv": _convolution, "ln": _layer_norm,
    **{name: _of_two(getattr(torch, name)) for name in ("add", "sub", "mul", "div", "pow")},
    **{f"{name}u": _of_one(lambda x, function=getattr(torch, name): function(x, 2.5))  # noqa: B008  the round's own
       for name in ("add", "sub", "mul", "div", "pow")},
    "relu": _of_one(F.relu), "tanh": _of_one(torch.tanh), "gelu": _of_one(F.gelu),
    "softmax": _of_one(lambda x: F.softmax(x, dim=-1)),
}


def operator_ms(rows: Iterable[Operator]) -> Iterator[float]:
    """Of each row, in their order, what a pair of CUDA events around it would show (ms): its kernels, and the measuring
    host's part. Rows of convolutions are taken to come in the order in which they were measured
    (:func:`.hosts.drift_ms`)."""
    rows = list(rows)
    found, drifting = hosts.shipped(), fitted.hosts("convolutions")
    convolutions = Counter(row.device for row in rows if row.op == "conv")
    seen: Counter = Counter()
    for row, kernels_ms in zip(rows, kernel_ms(rows)):
        if row.op == "conv":
            place = (seen[row.device] + 0.5) / convolutions[row.device]
            seen[row.device] += 1
            host = drifting.get(row.card)
            yield kernels_ms + (hosts.drift_ms(host, place) if host else 0.0)
        elif not row.host:
            yield kernels_ms
        else:
            yield hosts.measured_s(found, row.device, row.op, kernels_ms / 1e3) * 1e3


def all_reduce_ms(rows: Iterable[AllReduce]) -> Iterator[float | None]:
    """Of each row, in their order; None over a network, whose speed the tables do not tell."""
    for row in rows:
        yield None if row.gpus > row.on_each else interconnect.course(
            interconnect.ALL_REDUCE, row.nbytes, [0] * row.gpus, vgpu.find_card(row.card),
            interconnect.MACHINES[row.machine]).ns / 1e6


@contextmanager
def recorded() -> Iterator[Callable[[], float]]:
    """What runs inside is recorded; gives a function that says by which share its time is uncertain."""
    timeline = vgpu.timeline()
    recording = timeline.recording = vgpu.Recording(lines=False)
    try:
        yield lambda: uncertainty.of_step(vgpu.card(), recording.kernels())
    finally:
        timeline.recording = None


def card_of(key: str, **changes) -> Card:
    """The card with that key, with memory for anything: a measured card's may be another than the sheet's, and what was
    measured did fit."""
    return dataclasses.replace(vgpu.find_card(key), memory_bytes=2**43, **changes)


def kernel_ms(rows: Iterable[Operator]) -> Iterator[float]:
    """Of each row, in their order: the time of its kernels (ms), without TF32, as they were measured."""
    before, torch.backends.cudnn.conv.fp32_precision = torch.backends.cudnn.conv.fp32_precision, "ieee"
    try:
        with torch.no_grad(), autotuned():
            yield from _kernel_ms(rows)
    finally:
        torch.backends.cudnn.conv.fp32_precision = before


@contextmanager
def _default_dtype(dtype: torch.dtype):
    """Inside, tensors are made with ``dtype``."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _kernel_ms(rows: Iterable[Operator]) -> Iterator[float]:
    used = device = None
    for row in rows:
        if row.card != used:
            used = row.card
            device = vgpu.enable(card_of(used, host=NO_HOST))
        with vgpu.shape_only():
            with _default_dtype(getattr(torch, row.dtype)):
                call = PROGRAMS[row.op](device, *row.sizes)
            if row.op == "conv":
                call()  # tunes
            vgpu.timeline().reset()
            call()
            yield vgpu.timeline().current.ready_ns / 1e6
