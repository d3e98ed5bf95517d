"""Lesson 08: what a look at a network must not leave behind."""

from __future__ import annotations

from ....course.evidence import Case
from .stage import HOOKS, MODE, NAMES, SEEDED

_LEFT = {
    MODE: "but the network's mode has changed. Work on a `copy.deepcopy`.",
    HOOKS: "but hooks are left on the network. Call each handle's `remove()`, or work on a `copy.deepcopy`.",
    SEEDED: "but you seeded the process's random numbers, so a training would draw the same ones again. `with "
            "torch.random.fork_rng():` restores them.",
}


def tied(case: Case, found, wanted) -> str | None:
    """What has become of the network, where the names are right."""
    if not isinstance(found, dict) or found[NAMES] != wanted[NAMES]:
        return None
    left = next((words for key, words in _LEFT.items() if found[key] != wanted[key]), (
        "but your test changed the running statistics of a network that somebody wants to train. Work on a "
        "`copy.deepcopy`."))
    return f"The names are right; {left}"
