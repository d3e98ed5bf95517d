"""Lesson 08: a budget beside what the card shows, to be looked at."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....course.checks.peak_bytes import size_in_words
from ....course.exercise import full_size
from ....course.headline import MarkdownText
from ....measure.device import origin_of
from ..workload import step_parts
from .right import right_budget


def beside_the_card(budget: Callable, device: torch.device, batch: int) -> MarkdownText:
    """What ``budget`` says of the slow program with that ``batch``, and what a step on the device shows, where it fits."""
    with full_size(device):
        said = budget(*step_parts(device, batch), None)
        try:
            shown = right_budget(*step_parts(device, batch), None)
        except torch.OutOfMemoryError:
            shown = {}
    place = origin_of(device)
    lines = [f"Batch {batch} ({place}):", "", "| | predicted | the card shows |", "|---|---:|---:|"]
    for name, value in said.items():
        lines.append(f"| {name} | {size_in_words(value)} | {size_in_words(shown[name]) if shown else 'out of memory'} |")
    return MarkdownText("\n".join(lines))
