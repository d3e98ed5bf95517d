"""Lesson 00: ``predict_step_ms`` as handed out."""

from __future__ import annotations


def predict_step_ms(flops, bytes, launches, card):
    """The usual first guess: FLOPs ÷ FLOP/s."""
    total = sum(f * n for f, n in zip(flops, launches))
    return 1000 * total / card.flops_per_s
