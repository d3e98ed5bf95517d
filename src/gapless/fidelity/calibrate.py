"""A GPU measured, and the card fitted to what was measured.

What is measured is kept in the file beside the card, and the card is only :func:`fit` of it: the fit can be repeated,
and improved, without the GPU. A kernel's time is taken as a start, plus bytes over bandwidth or FLOPs over peak, whichever
is longer. Start and rate of each kind are those with the least sum of relative errors, which one odd measurement hardly
moves. Kernels with a model of their own (products, convolutions, rows) keep it, with the constants of the card that the
GPU's name tells; what is fitted is a factor on its times, for each kind and dtype.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..vgpu.hardware.cards.cardfile import card_from_json, card_to_json
from ..vgpu.hardware.cards.specs import CARDS, Card, CardError, Host, find_model
from . import experiments

# Kinds bound by memory, in the order of fitting: a sort holds a pointwise kernel whose time is known by then.
MEMORY_KINDS = ("pointwise", "memset", "reduction", "scan", "gather", "scatter", "normalization", "optimizer", "sort")
MATH_KINDS = ("matmul", "convolution", "attention")
ROUNDS = 60  # of reweighting


class CalibrationError(ValueError):
    """A card cannot be calibrated; the message says why."""


def take_measurements(device: torch.device) -> dict:
    """All measurements of ``device``, in plain JSON types, with a line of progress each."""
    began = time.monotonic()
    properties = torch.cuda.get_device_properties(device)
    found: dict[str, Any] = {
        "gpu": {"name": properties.name, "memory_bytes": properties.total_memory,
                "sm_count": properties.multi_processor_count,
                "compute_capability": [properties.major, properties.minor]},
        "host": experiments.measure_host(device),
        "kernels": [],
    }
    planned = experiments.experiments()
    for number, experiment in enumerate(planned, 1):
        try:
            found["kernels"].append(experiments.measure(experiment, device))
        except (torch.OutOfMemoryError, RuntimeError, NotImplementedError) as error:  # a dtype that this GPU lacks
            print(f"left out: {experiment.what} in {experiment.dtype}: {str(error).splitlines()[0][:100]}",
                  file=sys.stderr)
        if number % 20 == 0 or number == len(planned):
            torch.cuda.empty_cache()
            print(f"{number} of {len(planned)} experiments, {time.monotonic() - began:.0f} s", file=sys.stderr,
                  flush=True)
    return found


# -- the fit ----------------------------------------------------------------------------------------


def fit(measurements: dict, key: str = "measured", measured: str = "") -> Card:
    """The card of ``measurements``. Raises CalibrationError where they cannot be: a field missing, a time of zero, rates
    that no GPU has."""
    try:
        return _fit(measurements, key, measured)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise CalibrationError(f"these measurements are not complete ({type(error).__name__}: {error})") from None
    except CardError as error:
        raise CalibrationError(f"these measurements give no card: {error}") from None


def _fit(measurements: dict, key: str, measured: str) -> Card:
    points = measurements["kernels"]
    for point in points:
        if not (isinstance(point["seconds"], (int, float)) and math.isfinite(point["seconds"]) and point["seconds"] > 0):
            raise CalibrationError(f"{point['what']} took {point['seconds']} s, which no kernel does")
    gpu = measurements["gpu"]
    card = _base(gpu, points, key)
    source = f"measured on {gpu['name']}" + (f", {measured}" if measured else "") + "; peaks: " + card.source
    card = dataclasses.replace(card, key=key, source=source, host=_host(measurements["host"], card),
                               kernel_floor_ns=_floor_ns(points))
    for kind in (*MEMORY_KINDS, *MATH_KINDS):
        simple, shaped = [], []
        for point in points:
            if point["kind"] == kind:
                (shaped if any("problem" in kernel for kernel in _own(point, kind)) else simple).append(point)
        card = (_fit_memory if kind in MEMORY_KINDS else _fit_math)(card, kind, simple)
        card = _fit_factors(card, kind, shaped)
    return card_from_json(json.loads(json.dumps(card_to_json(card))))  # the same checks as for any card file


def _base(gpu: dict, points: list[dict], key: str) -> Card:
    """The data sheet's card of that name; else one whose peaks are the best rates measured."""
    known = find_model(gpu["name"])
    capability = tuple(gpu["compute_capability"])
    if known is not None:
        return dataclasses.replace(CARDS[known], fitted_as=CARDS[known].fit_key, name=gpu["name"],
                                   memory_bytes=gpu["memory_bytes"], sm_count=gpu["sm_count"],
                                   compute_capability=capability)
    bandwidth = max(_total(point, "bytes") / point["seconds"] for point in points if point["kind"] in ("pointwise",
                                                                                                       "memset"))
    peaks: dict[str, float] = {}
    for point in points:
        if point["kind"] == "matmul":
            peaks[point["dtype"]] = max(peaks.get(point["dtype"], 0.0), _total(point, "flops") / point["seconds"])
    return Card(key, gpu["name"], gpu["memory_bytes"], bandwidth, peaks, gpu["sm_count"], 32e9, capability,
                "the best rates measured, since no data sheet is known here")


def _total(point: dict, what: str) -> float:
    return sum(kernel[what] for kernel in point["model"])


def _host(found: dict, card: Card) -> Host:
    pinned = statistics.mean((found["pinned_to_device_bytes_per_s"], found["device_to_pinned_bytes_per_s"]))
    pageable = statistics.mean((found["pageable_to_device_bytes_per_s"], found["device_to_pageable_bytes_per_s"]))
    # What the processor does is measured since the host's clock counts it; older measurements do not have it.
    processor = {name: round(found[name]) if name == "cores" else found[name]
                 for name in ("cores", "core_flops", "core_bytes_per_s", "memory_bytes_per_s") if name in found}
    if "python_call_s" in found:
        processor["python_call_ns"] = _ns(found["python_call_s"])
    if "product_s" in found:
        processor["library_op_ns"] = _ns(found["product_s"] - found["launch_s"])
    return Host(
        **processor,
        op_ns=_ns(found["operator_s"] - found["launch_s"]),
        view_ns=_ns(found["view_s"]),
        launch_ns=_ns(found["launch_s"]),
        sync_ns=_ns(found["synchronize_s"]),
        queue_length=int(found["queue_length"]),
        pinned_share=min(1.0, pinned / card.pcie_bytes_per_s),
        pageable_share=min(1.0, pageable / card.pcie_bytes_per_s),
    )


def _ns(seconds: float) -> int:
    return max(1, round(seconds * 1e9))


def _floor_ns(points: list[dict]) -> int:
    """The shortest time of a kernel: the fastest of those that move least."""
    return _ns(min(point["seconds"] / len(point["model"]) for point in points))


def _others_s(card: Card, point: dict, kind: str) -> float:
    """Seconds of the modelled kernels of other kinds in a measurement."""
    return _modelled_s(card, [kernel for kernel in point["model"] if kernel["kind"] != kind])


def _modelled_s(card: Card, kernels: list[dict]) -> float:
    return sum(experiments.kernel_from_json(kernel).duration_ns(card) for kernel in kernels) / 1e9


def _own(point: dict, kind: str) -> list[dict]:
    return [kernel for kernel in point["model"] if kernel["kind"] == kind]


def _fit_memory(card: Card, kind: str, points: list[dict]) -> Card:
    rows = [(len(_own(point, kind)), sum(kernel["bytes"] for kernel in _own(point, kind)),
             point["seconds"] - _others_s(card, point, kind)) for point in points]
    # At the floor a time says nothing about the rate.
    rows = [row for row in rows if row[0] and row[1] and row[2] > 1.05 * row[0] * card.kernel_floor_ns / 1e9]
    if len(rows) < 2:
        return card
    start_s, per_byte_s = least_relative(rows)
    return _with(card, kind, start_s, memory=1 / (per_byte_s * card.bandwidth_bytes_per_s) if per_byte_s else None)


def _fit_math(card: Card, kind: str, points: list[dict]) -> Card:
    by_dtype: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for point in points:
        kernels = _own(point, kind)
        dtype = point["dtype"] if point["dtype"] in card.peak_flops else "float32"
        flops, moved = (sum(kernel[what] for kernel in kernels) for what in ("flops", "bytes"))
        rest_s = point["seconds"] - _others_s(card, point, kind)
        # Only where arithmetic is what takes long does a time tell the arithmetic's rate.
        if flops / card.peak_flops[dtype] > moved / card.bandwidth_bytes_per_s and rest_s > 0:
            by_dtype[dtype].append((len(kernels), flops, rest_s))
    starts, shares = [], {}
    for dtype, rows in by_dtype.items():
        start_s, per_flop_s = least_relative(rows) if len(rows) > 1 else (0.0, rows[0][2] / rows[0][1])
        starts.append(start_s)
        if per_flop_s:
            shares[f"{kind}:{dtype}"] = 1 / (per_flop_s * card.peak_flops[dtype])
    if not shares:
        return card
    card = _with(card, kind, statistics.median(starts))
    return dataclasses.replace(card, math_efficiency={**card.math_efficiency, **shares})


def _fit_factors(card: Card, kind: str, points: list[dict]) -> Card:
    """Of kernels whose time a problem tells: the median of measured over modelled time, for each dtype; where memory binds
    them, a start and one factor."""
    if kind in MEMORY_KINDS:
        return _fit_start_and_factor(card, kind, points)
    factors: dict[str, list[float]] = defaultdict(list)
    for point in points:
        own = _own(point, kind)
        modelled_s, rest_s = _modelled_s(card, own), point["seconds"] - _others_s(card, point, kind)
        if rest_s > 0 and modelled_s > 2 * len(own) * card.kernel_floor_ns / 1e9:
            factors[f"{kind}:{own[0]['dtype']}"].append(rest_s / modelled_s)
    found = {name: statistics.median(ratios) for name, ratios in factors.items()}
    return dataclasses.replace(card, time_factors={**card.time_factors, **found})


def _fit_start_and_factor(card: Card, kind: str, points: list[dict]) -> Card:
    rows = []
    for point in points:
        own = [experiments.kernel_from_json(kernel) for kernel in _own(point, kind)]
        rest_s = point["seconds"] - _others_s(card, point, kind)
        if rest_s > 1.05 * len(own) * card.kernel_floor_ns / 1e9:
            rows.append((len(own), sum(kernel.problem.start_and_busy_s(card, kernel.dtype)[1] for kernel in own), rest_s))
    if len(rows) < 2:
        return card
    start_s, factor = least_relative(rows)
    return dataclasses.replace(_with(card, kind, start_s),
                               time_factors={**card.time_factors, **({kind: factor} if factor else {})})


def _with(card: Card, kind: str, start_s: float, memory: float | None = None) -> Card:
    efficiency = card.memory_efficiency if memory is None else {**card.memory_efficiency, kind: memory}
    return dataclasses.replace(card, memory_efficiency=efficiency,
                               kernel_start_ns={**card.kernel_start_ns, kind: round(start_s * 1e9, 1)})


def least_relative(rows: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """``(start, rate)``, neither negative, with the least Σ |start·n + rate·x − y| / y over the rows (n, x, y).

    By iteratively reweighted least squares (Holland and Welsch, 1977).
    """
    counts, sizes, times = (np.array(column, dtype=float) for column in zip(*rows))
    both = np.stack([counts / times, sizes / times], axis=1)  # so that the right-hand side is 1
    best, least = (0.0, 0.0), math.inf
    for columns in ((0, 1), (1,), (0,)):  # with a start and a rate; without either where it would be negative
        found = _reweighted(both[:, columns])
        if (found < 0).any():
            continue
        error = float(np.abs(both[:, columns] @ found - 1).sum())
        if error < least - 1e-12:
            least = error
            pair = dict(zip(columns, found))
            best = (float(pair.get(0, 0.0)), float(pair.get(1, 0.0)))
    return best


def _reweighted(columns: np.ndarray) -> np.ndarray:
    scale = np.abs(columns).max(axis=0)
    columns = columns / scale
    weights, found = np.ones(len(columns)), np.zeros(columns.shape[1])
    for _ in range(ROUNDS):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(columns * root[:, None], root, rcond=None)[0]
        weights = 1 / np.maximum(np.abs(columns @ found - 1), 1e-9)
    return found / scale


# -- how good it is -----------------------------------------------------------------------------------


def errors(card: Card, measurements: dict) -> dict[str, dict[str, float]]:
    """By kind of kernel: the median and the largest relative error of the card's times for what it was fitted to."""
    found: dict[str, list[float]] = defaultdict(list)
    for point in measurements["kernels"]:
        modelled_s = _modelled_s(card, point["model"])
        found[point["kind"]].append(abs(modelled_s / point["seconds"] - 1))
    return {kind: {"measurements": len(shares), "median_error": statistics.median(shares), "worst_error": max(shares)}
            for kind, shares in found.items()}


def table(card: Card, residuals: dict[str, dict[str, float]]) -> str:
    """The card as text: host, kinds, errors."""
    host = card.host
    lines = [f"{card.name}, {card.source}", "",
             f"operator {host.op_ns / 1e3:.1f} µs, view {host.view_ns / 1e3:.1f} µs, launch {host.launch_ns / 1e3:.1f} µs, "
             f"wait {host.sync_ns / 1e3:.1f} µs, queue {host.queue_length}",
             f"copies: pinned {host.pinned_share * card.pcie_bytes_per_s / 1e9:.1f} GB/s, pageable "
             f"{host.pageable_share * card.pcie_bytes_per_s / 1e9:.1f} GB/s", "",
             "kind           share of bandwidth  start µs  median error  worst"]
    for kind, found in residuals.items():
        share = f"{card.memory_share(kind):.2f}"
        start_us = card.kernel_start_ns.get(kind, 0) / 1e3
        lines.append(f"{kind:13}  {share:>18}  {start_us:8.1f}  {found['median_error']:12.0%}  {found['worst_error']:5.0%}")
    lines += ["", "share of the arithmetic peak: " + ", ".join(
        f"{name} {share:.2f}" for name, share in card.math_efficiency.items() if ":" in name),
        "measured over modelled time of kernels with a model of their own: " + ", ".join(
            f"{name} {factor:.2f}" for name, factor in card.time_factors.items())]
    return "\n".join(lines)
