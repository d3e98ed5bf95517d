"""Lesson 05: why a training step in mixed precision is wrong, where no known mistake gives its answer."""

from __future__ import annotations

from ....course.evidence import Case
from .stage import BACKWARD, COMPUTED, KEPT, LOSSES, PASSES, SCALE, SCALED, STEP, STEPS

# What was seen → what to say of it. The first that differs is the one that the message is about.
_SEEN = {
    COMPUTED: "The forward pass belongs under `torch.autocast(x.device.type, dtype=dtype)`: with the device's own type (for "
              "another it is switched off, with a warning), and the dtype that was asked for.",
    BACKWARD: "Autocast ends after the loss: the backward pass takes each operator's dtype from the forward pass by itself.",
    STEP: "Autocast belongs around the forward pass and the loss only.",
    SCALED: "The loss belongs inside autocast, which computes it in float32, and is scaled after it.",
    KEPT: "The network's weights stay float32: autocast casts copies of them, so do not cast the network.",
    PASSES: "Each micro-batch goes through the network once.",
    STEPS: "The optimizer takes one step, after the last micro-batch, by `scaler.step(optimizer)`: which takes none where a "
           "gradient is inf or nan.",
    LOSSES: "The mean loss is to be returned: what each micro-batch's loss, divided by their number, adds up to, without "
            "the scale.",
    SCALE: "The scaler looks after its scale by itself: one `scaler.update()` at the end of each step.",
}
_NO_STEP = ("The optimizer took no step at all. Was `scaler.step(optimizer)` left out? Or was it another scaler than the "
            "one that was given? It skips a step whose gradients are inf or nan, and its scale has to suit them.")
_ANY_STEP = ("The optimizer took a step where the gradients are inf or nan: `scaler.step(optimizer)` of the scaler that was "
             "given, which has scaled the loss, skips it.")


def train_step(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first thing that the network saw otherwise."""
    if not found[PASSES]:
        return "The network was never called: does the function end, or return, before the loop?"
    if wanted[SCALED] != "none" and found[SCALED] == "none":
        return ("The scaler that was given has scaled no loss: `scaler.scale(loss).backward()`. Make none of your own: its "
                "scale would begin anew in each step.")
    first = next((name for name in _SEEN if found[name] != wanted[name]), None)
    if first == STEP and "none" in (found[STEP], wanted[STEP]):
        return _NO_STEP if found[STEP] == "none" else _ANY_STEP
    return _SEEN.get(first)
