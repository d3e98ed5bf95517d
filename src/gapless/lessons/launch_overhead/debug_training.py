"""Lesson 06: a training with debug aids that can be turned off, and how `training_without_debugging` is called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from itertools import count

import torch
import torch.nn.functional as F
from torch import nn

from ... import vgpu
from ...course.plain import Unusable
from ...measure.device import clock_ms, synchronize
from .debug_aids import AIDS, Moment

STEPS = 4  # of a run: the first, and others with a rare check among them
FEATURES, WIDTH, CLASSES = 8, 16, 4

OFF, LOG, NONE = "turned off", "log", "none"


@dataclass(frozen=True)
class Run:
    """Of a training. ``step_ms``: the time of each step by the host's clock, the device done; ``log``: the lines that
    people read."""

    step_ms: list[float]
    log: list[str]


class Training:
    """``aids``: the names of its debug aids. Each ``run`` begins with the same weights and the same batches."""

    def __init__(self, weights: list[torch.Tensor], batches: list[tuple[torch.Tensor, torch.Tensor]], kinds: dict[str, str],
                 every: int):
        self.aids = list(kinds)
        self._weights, self._batches, self._kinds, self._every = weights, batches, kinds, every

    def run(self, on: Iterable[str], steps: int = STEPS) -> Run:
        """Train for ``steps`` with the aids ``on``, and no other. Raises ValueError for a name that no aid has."""
        take_step, device = self.steps(on), self._weights[0].device
        step_ms, noted = [], []
        synchronize(device)
        with vgpu.host_clock.counting() if device.type == "vgpu" else nullcontext():
            for _ in range(steps):
                start_ms = clock_ms(device)
                noted += take_step()
                synchronize(device)
                step_ms.append(clock_ms(device) - start_ms)
        return Run(step_ms, [line if value is None else f"{line}: {float(value):.4f}" for line, value in noted])

    def steps(self, on: Iterable[str]) -> Callable[[], list]:
        """A function that takes the next step of a new training each time it is called: its lines for the log, each with a
        number on the device or None. Raises ValueError as ``run`` does."""
        on = list(on)
        unknown = [name for name in on if name not in self._kinds]
        if unknown:
            raise ValueError(f"no aid is called {unknown[0]!r}; there are {', '.join(self.aids) or 'none'}")
        model = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES)).to(self._weights[0].device)
        with torch.no_grad():
            for parameter, weight in zip(model.parameters(), self._weights):
                parameter.copy_(weight)
        optimizer, numbers = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), count()
        return lambda: self._step(model, optimizer, next(numbers), on)

    def _step(self, model: nn.Module, optimizer: torch.optim.Optimizer, number: int, on: list[str]) -> list:
        x, y = self._batches[number % len(self._batches)]
        moment = Moment(model, optimizer, x, y, number, self._every)
        with ExitStack() as stack:
            for name in on:
                stack.enter_context(AIDS[self._kinds[name]](moment))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        noted = [(f"step {number}, {line}", value) for line, value in moment.noted]
        return [(f"loss of step {number}", loss.detach()), *noted]


def training_of(given) -> Training:
    """The case's."""
    options, inputs = given.options, given.inputs
    return Training(inputs["weights"], list(zip(inputs["x"], inputs["y"])), options["kinds"], options["every"])


def ask_training_without_debugging(function, given, device):
    """The aids that ``function`` turns off, and the log of the training without them."""
    training = training_of(given)
    yield
    off = function(training)
    yield
    if not isinstance(off, (list, tuple, set, frozenset)) or not all(isinstance(name, str) for name in off):
        nothing = "nothing: is there a `return`?" if off is None else f"a {type(off).__name__};"
        raise Unusable(f"it returned {nothing} the names of the aids to turn off are wanted, a list.")
    unknown = [name for name in off if name not in training.aids]
    if unknown:
        raise Unusable(f"it would turn off {unknown[0]!r}, which is none of the aids {training.aids}.")
    names = set(off)
    left = [name for name in training.aids if name not in names]
    return {OFF: ", ".join(sorted(names)) or NONE, LOG: training.run(left).log}
