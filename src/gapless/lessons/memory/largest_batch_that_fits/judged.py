"""Lesson 08: what is said of the batch that a search has found: tried again on the judge's side."""

from __future__ import annotations

import torch

from ....course.evidence import Case
from ....course.exercise import Notes
from ....garbage import no_collection
from .stage import BROKEN, FOUND, Steps

BOUNDARY, ALL_FIT, NONE_FITS = "fits twice in a row, one more does not", "the most that is allowed", "0: none fits"


def verified(case: Case, answer, notes: Notes, device: torch.device):
    """The answer, with a verdict in place of the batch."""
    if not isinstance(answer, dict) or type(answer.get(FOUND)) is not int:
        return answer
    return {**answer, FOUND: _judged(case.options, answer[FOUND], device)}


def _judged(options: dict, batch: int, device: torch.device) -> str:
    """The verdict on the batch that was found."""
    kind, most = options["kind"], options["most"]
    if kind in BROKEN:
        return f"{batch}, for a step whose error is not about memory"
    if kind == "leaks":
        return f"{batch}, for a step that keeps more with each call"
    if not 0 <= batch <= most:
        return f"{batch}, where the most is {most}"
    with no_collection():
        steps = Steps(options, device)
        if batch and not any(_fits(steps, batch, 1)):
            return f"{batch}, which does not fit"
        if batch and not any(_fits(steps, batch, 2)):
            return f"{batch}, which fits once, but not twice in a row"
        if batch < most and all(_fits(steps, batch + 1, 2)):
            return f"{batch}, where {batch + 1} fits too"
    return NONE_FITS if batch == 0 else ALL_FIT if batch == most else BOUNDARY


def _fits(steps: Steps, batch: int, times: int):
    """Whether it fits, with nothing in reserve, where the optimizer's state is there already, as in a search, and where it
    is not, as in a new process. State that is made between activations divides their segments, and the one may fit where
    the other does not: both are true."""
    for has_state in (True, False):
        steps.last = None
        steps.optimizer.zero_grad()
        if not has_state:
            steps.optimizer.state.clear()
        torch.get_device_module(steps.device).empty_cache()
        try:
            if has_state and not steps.optimizer.state:
                steps.step(1)
                torch.get_device_module(steps.device).empty_cache()
            for _ in range(times):
                steps.step(batch)
            fits = True
        except torch.OutOfMemoryError:
            fits = False
        yield fits
