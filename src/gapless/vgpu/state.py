"""The one modelled card of this process: its timeline, its memory, and how values are held."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field

from .location import location
from .memory import Memory
from .specs import DEFAULT_CARD, Card, find_card
from .timeline import Timeline


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
        self.use(card)

    def use(self, card: Card) -> None:
        """Model ``card`` from now on, with clocks at zero."""
        self.card = card
        self.timeline = Timeline(card, locate=location)
        self.memory = Memory(card.memory_bytes)
        self.shape_only: Assumptions | None = None


state = State(find_card(DEFAULT_CARD))


@contextmanager
def shape_only(assumptions: Assumptions | None = None):
    """Tensors made inside have shapes and no values, so that a step of any size costs almost nothing
    to simulate. Values read as zeros; data-dependent sizes follow ``assumptions``."""
    before = state.shape_only
    state.shape_only = assumptions or Assumptions()
    try:
        yield state.shape_only
    finally:
        state.shape_only = before
