"""Lesson 08: what a look at a network must not leave behind."""

from __future__ import annotations

from ....course.evidence import Case
from .stage import HOOKS, MODE, NAMES, SEEDED

_LEFT = {
    MODE: "but the network is left in another mode. Look at a `copy.deepcopy`.",
    HOOKS: "but hooks are left on the network: call each handle's `remove()`, or look at a `copy.deepcopy`.",
    SEEDED: "but the process's random numbers were seeded, and a training would draw the same again. `with "
            "torch.random.fork_rng():` puts them back.",
}


def tied(case: Case, found, wanted) -> str | None:
    """What has become of the network, where the names are right."""
    if not isinstance(found, dict) or found[NAMES] != wanted[NAMES]:
        return None
    left = next((words for key, words in _LEFT.items() if found[key] != wanted[key]), (
        "but looking has moved the running statistics, of a network that somebody wants to train. Look at a "
        "`copy.deepcopy`."))
    return f"The names are right; {left}"
