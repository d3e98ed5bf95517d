"""Labels of the longest waits, each where it touches no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .columns import COLUMNS
from .scene import Wait

WIDTH_IN = 10.0  # of a timeline's figure
_AXES = 0.82  # of that width; the rest is for the rows' names and shares
_CHARACTER_IN = 0.066  # a character of a label is about this wide
_PER_STEP = 3
_LEVELS = 3


@dataclass(frozen=True)
class Label:
    """A wait's label: inside its bar (level -1), or a flag above it, to the right or the left."""

    text: str
    middle_ms: float
    left_ms: float
    right_ms: float
    level: int = -1


def characters_ms(text: str, end_ms: float) -> float:
    """How wide a text is, in ms of a picture that ends at ``end_ms``."""
    return len(text) * _CHARACTER_IN * end_ms / (WIDTH_IN * _AXES)


def place_labels(waits: Sequence[Wait], steps: int, end_ms: float) -> list[Label]:
    """Labels for the longest waits: as many as find a place without touching each other. A wait thinner than a column has
    none, as nobody could see which one it names."""
    wide = [wait for wait in waits if wait.wait_ms * COLUMNS >= end_ms]
    wanted = sorted(wide, key=lambda wait: -wait.wait_ms)[: _PER_STEP * max(steps, 1)]
    while wanted:
        labels = _placed(wanted, end_ms)
        if labels is not None:
            return labels
        wanted.pop()  # the shortest gives way
    return []


def _placed(waits: Sequence[Wait], end_ms: float) -> list[Label] | None:
    inside, leftward, rightward = [], [], []
    for wait in waits:
        middle_ms, width_ms = wait.start_ms + wait.wait_ms / 2, characters_ms(wait.text, end_ms)
        if 1.15 * width_ms < wait.wait_ms:
            inside.append(Label(wait.text, middle_ms, middle_ms, middle_ms))
        elif middle_ms + width_ms <= end_ms:
            rightward.append(Label(wait.text, middle_ms, middle_ms, middle_ms + width_ms))
        else:
            leftward.append(Label(wait.text, middle_ms, middle_ms - width_ms, middle_ms))
    # In this order a flag's pole stands clear of the flags below it.
    leftward.sort(key=lambda label: label.middle_ms)
    rightward.sort(key=lambda label: -label.middle_ms)
    flags: list[Label] = []
    for flag in leftward + rightward:
        level = next((level for level in range(_LEVELS) if _is_free(flag, level, flags)), None)
        if level is None:
            return None
        flags.append(replace(flag, level=level))
    return inside + flags


def _is_free(flag: Label, level: int, flags: list[Label]) -> bool:
    for other in flags:
        if level == other.level and flag.left_ms <= other.right_ms and other.left_ms <= flag.right_ms:
            return False
        if level > other.level and other.left_ms <= flag.middle_ms <= other.right_ms:
            return False
        if level < other.level and flag.left_ms <= other.middle_ms <= flag.right_ms:
            return False
    return True
