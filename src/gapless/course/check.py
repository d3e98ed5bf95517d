"""What a check of an exercise is. The kinds of checks are in :mod:`.checks`, one a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .evidence import Evidence, Plan

Found = tuple[str, str]  # an outcome (PASS, FAIL or INCONCLUSIVE), and what to say


@dataclass
class Look:
    """What a check looks at: the ``exercise``, its ``plan``, the ``evidence``, what is right (``truth``), and ``cells``,
    name → text, whose lines may be quoted. ``found``: by name, what the checks before it have found."""

    exercise: Any  # an Exercise, which is above this file: it is made of checks
    plan: Plan
    evidence: Evidence
    truth: Any
    cells: dict[str, str] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)


@dataclass(frozen=True)
class Check(ABC):
    """One thing that is asked of a learner's function, for so many ``points``. ``name``: its key in results and gradebooks.
    ``measured``: whether it judges what a measurement shows, for which the exercise has to have one. ``watches_memory``:
    whether that measurement has to know what holds the device's memory."""

    points: float

    name: ClassVar[str]
    measured: ClassVar[bool] = False
    watches_memory: ClassVar[bool] = False

    @abstractmethod
    def judge(self, look: Look) -> Found:
        """The outcome, and what to say to the learner: what was found, why, what to try next."""
