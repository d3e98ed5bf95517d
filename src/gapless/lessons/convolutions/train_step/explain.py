"""Lesson 05: why a training step in mixed precision is wrong, where no known mistake gives its answer."""

from __future__ import annotations

from ....course.evidence import Case
from .stage import BACKWARD, COMPUTED, KEPT, LOSSES, PASSES, SCALE, SCALED, STEP, STEPS

# What was seen → what to say of it. The first that differs is the one that the message is about.
_SEEN = {
    COMPUTED: "Put the forward pass under `torch.autocast(x.device.type, dtype=dtype)`. It needs the tensor's own device "
              "type (for any other it switches itself off, with a warning), and the `dtype` that was asked for.",
    BACKWARD: "End autocast after the loss. The backward pass takes each operator's dtype from the forward pass.",
    STEP: "Autocast belongs around the forward pass and the loss only.",
    SCALED: "Compute the loss inside autocast, which computes it in float32. Scale it afterwards.",
    KEPT: "The network's weights stay float32. Autocast casts copies of them, so do not cast the network.",
    PASSES: "Each micro-batch goes through the network once.",
    STEPS: "The optimizer takes one step, after the last micro-batch, with `scaler.step(optimizer)`. That call skips the "
           "step if a gradient is inf or nan.",
    LOSSES: "Return the mean loss: divide each micro-batch's loss by their number, and add them up, without the scale.",
    SCALE: "The scaler adjusts its scale itself: call `scaler.update()`, without a number, at the end of each step.",
}
_NO_STEP = ("The optimizer took no step at all. Did you leave out `scaler.step(optimizer)`? Or did you use a scaler "
            "other than the one that was given? A scaler skips a step whose gradients are inf or nan, and its scale has "
            "to suit them.")
_ANY_STEP = ("The optimizer took a step although gradients are inf or nan. Call `scaler.step(optimizer)` on the scaler "
             "that was given and that scaled the loss: it skips such a step.")


def train_step(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first thing that the network saw otherwise."""
    if not found[PASSES]:
        return "The network was never called: does the function end, or return, before the loop?"
    if wanted[SCALED] != "none" and found[SCALED] == "none":
        return ("The scaler that was given has scaled no loss: `scaler.scale(loss).backward()`. Do not create your own: "
                "its scale would start again in each step.")
    first = next((name for name in _SEEN if found[name] != wanted[name]), None)
    if first == STEP and "none" in (found[STEP], wanted[STEP]):
        return _NO_STEP if found[STEP] == "none" else _ANY_STEP
    return _SEEN.get(first)
