"""Lesson 01: what an exercise's cell finds defined, and how each exercise's function is called."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
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


def _fields(spans: Sequence[Span]) -> list[tuple]:
    return [(span.category, span.name, span.start_us, span.end_us, span.thread, span.args) for span in spans]


def ask_trace(function, given, device):
    """What ``function`` says of a trace."""
    options = dict(given.options)
    trace = Trace(options.pop("events"))
    before = pickle.dumps(trace.events)
    yield
    found = function(trace, **options)
    yield
    left_alone("trace.events", pickle.dumps(trace.events), before)
    if "spans" in vars(trace):
        left_alone("trace.spans", _fields(trace.spans), _fields(Trace(trace.events).spans))
    return found
