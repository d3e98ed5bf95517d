"""Lesson 08: what a look at a network must not leave behind."""

from __future__ import annotations

from ....course.evidence import Case
from ..stage import GRADIENTS, TRAINED
from .stage import DRAWN, HOOKS, MODE, NAMES, WEIGHTS

_LEFT = {
    MODE: "but the network's mode has changed. Work on a `copy.deepcopy`.",
    HOOKS: "but hooks are left on the network. Call each handle's `remove()`, or work on a `copy.deepcopy`.",
    DRAWN: "but your test drew or seeded random numbers, so the next training draws others. `with "
           "torch.random.fork_rng():` restores their state.",
    GRADIENTS: "but gradients are left on its parameters. Work under `torch.no_grad()`, or on a `copy.deepcopy`.",
    TRAINED: "but `requires_grad` of its parameters has changed. Work on a `copy.deepcopy`.",
    WEIGHTS: "but the network's weights have changed. Work on a `copy.deepcopy`.",
}


def tied(case: Case, found, wanted) -> str | None:
    """What has become of the network, where the names are right."""
    if not isinstance(found, dict):
        return None
    if found[NAMES] != wanted[NAMES]:
        return ("A name is in your list several times, because the forward pass calls that module several times. Name each "
                "module once.") if sorted(set(found[NAMES])) == wanted[NAMES] else None
    left = next((words for key, words in _LEFT.items() if found[key] != wanted[key]), (
        "but your test changed the running statistics of a network that somebody wants to train. Work on a "
        "`copy.deepcopy`."))
    return f"The names are right; {left}"
