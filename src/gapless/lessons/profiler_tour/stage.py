"""Lesson 01: what an exercise's cell finds defined, and how each exercise's function is called."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...course.plain import left_alone
from ...evidence.traces.trace import Span, Trace
from ...evidence.traces.waits import source_line


@dataclass(frozen=True)
class Measured:
    """A training step at some batch size: time by a stopwatch over a run, and the share of it with a kernel running."""

    step_ms: float
    gpu_utilization: float


def line_of(span: Span) -> str | None:
    """``train/model.py:31`` of a Python frame in a trace; None for the frames of PyTorch and of Python itself, and for
    whatever is no Python frame."""
    return source_line(span.name) if span.category == "python" else None


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "line_of": line_of}


def ask_trace(function, given, device):
    """What ``function`` says of a trace."""
    options = dict(given.options)
    trace = Trace(options.pop("events"))
    before = list(trace.events)
    yield
    found = function(trace, **options)
    yield
    left_alone("trace.events", list(trace.events), before)
    return found
