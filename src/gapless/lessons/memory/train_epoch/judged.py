"""Lesson 08: what an epoch held from step to step, in words. On the judge's side."""

from __future__ import annotations

from statistics import median_high

from ....course.evidence import Case
from ....course.exercise import Note
from .stage import BEGUN, END, STEP

PLAIN, LOOKED, FAILED, LEFT = ("memory after a plain step", "memory after a look at the validation data",
                               "memory after a step that failed", "memory after the epoch")
FLAT, UNSEEN = "as before", "unknown: batches were taken long before their steps"
_FEW_BYTES = 4096  # a step may add so much: a handful of results, each in a block of 512 bytes
_SETTLED = 2  # steps after which a step is like the one before
_AHEAD = 2  # batches that may be taken before they are used


def seen(case: Case, answer, notes: list[Note]):
    """The answer, with what the memory held from step to step."""
    if not isinstance(answer, dict):
        return answer
    return {**answer, **memory_of(case, notes)}


def kinds_of_steps(case: Case) -> list[str]:
    """Of each step, what the memory after it is called."""
    options = case.options
    return [FAILED if number in options["failing"] else LOOKED if (number + 1) % options["every"] == 0 else PLAIN
            for number in range(len(case.inputs["rows"]))]


def memory_of(case: Case, notes: list[Note]) -> dict[str, str]:
    """By kind of step, in words, how much more is held after it than before."""
    begun = [note.held_bytes for note in notes if note.text == BEGUN]
    held = [note.held_bytes for note in notes if note.text == STEP][1:]  # after each step but the last
    ended = [note.held_bytes for note in notes if note.text == END]
    kinds = kinds_of_steps(case)
    found: dict[str, list[float]] = {PLAIN: [], LOOKED: [], FAILED: []}
    plain = [number for number in range(_SETTLED, len(held)) if kinds[number] == PLAIN]
    pairs = list(zip(plain, plain[1:]))
    found[PLAIN] = [held[b] - held[a] for a, b in pairs if b == a + 1]
    usual = _usual(found[PLAIN])
    for a, b in pairs:  # from one plain step to the next, with steps of one other kind between them
        between = kinds[a + 1:b]
        if between and len(set(between)) == 1:
            found[between[0]].append((held[b] - held[a] - usual) / len(between))
    words = {kind: _in_words(_usual(growths)) for kind, growths in found.items()}
    left = ended[-1] - begun[0] if begun and ended else 0
    steps = [note.used.get("rows", taken) for taken, note in enumerate(each for each in notes if each.text == STEP)]
    if any(used < taken - _AHEAD for taken, used in enumerate(steps)):
        words[PLAIN] = UNSEEN
    words[LEFT] = FLAT if left <= _FEW_BYTES * (1 + len(held)) else "more than before"
    return words


def _usual(growths: list[float]) -> float:
    return median_high(growths) if growths else 0.0


def _in_words(growth: float) -> str:
    return FLAT if growth <= _FEW_BYTES else f"{growth / 1024:.0f} KiB more a time"
