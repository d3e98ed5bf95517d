"""The one modelled card of this process: its timeline, its memory, and how values are held."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from ..hardware.cards.cardfile import find_card
from ..hardware.cards.specs import DEFAULT_CARD, Card
from ..hardware.clock.debug_aids import DebugAids
from ..hardware.clock.timeline import Timeline
from ..hardware.memory.memory import Memory
from .location import operator_location

NAME = "vgpu"
DEVICE = torch.device("privateuseone", 0)  # shown as vgpu:0 once the backend is registered

@dataclass(frozen=True)
class Assumptions:
    """What shape-only mode takes data-dependent sizes to be, since it has no values.

    ``densities``: comparison operator (``eq``, ``ne``, …) → share of its result that is true;
    ``density``: the share for masks made in any other way; ``distinct``: how many values ``unique`` finds.
    """

    densities: dict[str, float] = field(default_factory=dict)
    density: float = 0.5
    distinct: int = 10


class State:
    """``shape_only`` is None while values are exact, else the Assumptions in force."""

    def __init__(self, card: Card):
        self.shape_only: Assumptions | None = None
        self.link: Any = None  # where the device is another process: the gapless.vgpu.boundary.link.Link to it
        self.errors: list[str] = []  # of operators that looked at values and raised; who asks empties it
        self.unused: set[int] = set()  # ids of allocations that somebody wants to know the first use of
        self.races: str | list = "warn"  # what becomes of them: gapless.vgpu.ordering.race_detector
        self.keeps_lines = False  # of each use of memory, even with one stream
        self.aids = DebugAids()  # what the program looks at itself by (gapless.vgpu.face.debug_aids)
        self.counting: Any = None  # what counts Python's calls, while something is measured (gapless.vgpu.host.host_clock)
        # Allocations that are smaller than they were (gapless.vgpu.core.shrunk): id → bytes that they had.
        self.shrunk: dict[int, int] = {}
        self.tape: Any = None  # of the graph under capture (gapless.vgpu.compiling.capture.Tape)
        self.forked = False  # whether this process was forked from one that had the device
        self.regions: Any = None  # while compiled graphs run, or their backward pass may: what operators tell of themselves
        self.region: Any = None  # that of the operator under dispatch
        self.is_worker = False  # whether this process is a DataLoader's, with a host clock of its own
        self._model(card)

    @property
    def watched(self) -> bool:
        """Whether uses of memory are kept (:mod:`..ordering.race_detector`): one stream alone has no races."""
        return self.timeline.concurrent or self.keeps_lines

    def use(self, card: Card) -> None:
        """Model ``card`` from now on, with clocks at zero. Copies under way on the card before arrive first."""
        before = self.timeline
        before.reset()
        self._model(card, before.launches)
        self.timeline.counted = before.counted

    def _model(self, card: Card, launches: int = 0) -> None:
        self.card = card
        self.plans: dict = {}  # of convolutions that have run: gapless.vgpu.core.tuning
        self.timeline = Timeline(card, locate=operator_location, launches=launches, aids=self.aids)
        self.memory = Memory(card.memory_bytes, self.timeline)


state = State(find_card(DEFAULT_CARD))


@contextmanager
def on_card(card: Card):
    """Inside, kernels and copies take as long as on ``card``; the memory stays as large. Clocks begin at zero, inside and
    afterwards."""
    before = state.card, state.plans

    def model(which: Card, plans: dict) -> None:
        state.card = state.timeline.card = which
        state.plans = plans
        state.timeline.reset()

    model(card, {})
    try:
        yield
    finally:
        model(*before)


@functools.cache
def _first_meta_operator() -> None:
    """The first operator on the meta device imports much of PyTorch (about a second), and what it leaves behind refers to
    its callers' frames: let those hold nobody's tensors."""
    torch.empty(1, device="meta").add(1)


@contextmanager
def shape_only(assumptions: Assumptions | None = None):
    """Tensors made inside have shapes and no values, so that a step of any size costs almost nothing
    to simulate. Values read as zeros; data-dependent sizes follow ``assumptions``."""
    _first_meta_operator()
    before = state.shape_only
    state.shape_only = assumptions or Assumptions()
    try:
        yield state.shape_only
    finally:
        state.shape_only = before


@contextmanager
def exact():
    """Inside :func:`shape_only`: tensors made in here have values, so that a part of a step can be real. The two kinds
    do not mix in one operator."""
    before = state.shape_only
    state.shape_only = None
    try:
        yield
    finally:
        state.shape_only = before
