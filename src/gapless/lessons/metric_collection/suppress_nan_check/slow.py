"""Lesson 03: ``suppress_nan_check`` as handed out."""

from __future__ import annotations


def suppress_nan_check(MetricClass):
    """A class like MetricClass (any of TorchMetrics' aggregators) that does not look for NaN."""
    return MetricClass
