"""Lesson 10: where to look when a program's report differs from the slow one's: by the first place that differs."""

from __future__ import annotations

from ....course.evidence import Case
from ....course.plain import difference

RELATIVE, ABSOLUTE = 2e-4, 2e-5  # how far a number may be off

# What the losses do not depend on, in the order in which a run computes it.
_LATER = {
    "training": "what the scores count, and when in a step they see the logits.",
    "validation": "`evaluate`: is the network in `eval()` there, on the records that it does not learn from, and what "
                  "does it count?",
    "made": "`generate`: is each letter chosen from the logits of all before it?",
    "average": "`Average`: is it updated after each step of the optimizer, and is the decay the weight of the old average?",
}


def report(case: Case, found, wanted: dict) -> str | None:
    """Which part of the program makes what differs first."""
    if not isinstance(found, dict):
        return None
    differing = [name for name in wanted if difference(found.get(name), wanted[name], RELATIVE, ABSOLUTE) is not None]
    if "losses" not in differing:
        part = next((why for name, why in _LATER.items() if name in differing), None)
        return part and f"The losses are right. Look at {part}"
    own, right = found.get("losses"), wanted["losses"]
    if not isinstance(own, list):
        return None
    if len(own) != len(right):
        return f"`losses` has {len(own)} numbers, but all epochs together have {len(right)} steps. Return one for each step."
    first = next(place for place, pair in enumerate(zip(own, right)) if difference(*pair, RELATIVE, ABSOLUTE) is not None)
    if first == 0:
        return ("The first loss is already different, before anything is learned. Look at what a batch holds (order, "
                "augmentation, scale), at the network's weights, and at the loss itself.")
    steps = len(right) // len(wanted["training"])  # of an epoch
    if steps > 1 and first % steps == 0:
        return ("An epoch's losses are right, but from the first step of the next on they are not. Look at the order of "
                "the data from epoch to epoch, and at what an evaluation leaves behind. Is the network in `train()` "
                "again?")
    return (f"All losses before losses[{first}] are right, so data, network and loss are right too. Look at what a step "
            "does with the loss, the gradients (do they add up?), the clipping, and the optimizer's settings for each "
            "weight.")
