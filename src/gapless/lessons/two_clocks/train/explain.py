"""Lesson 00: why an answer to ``train`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import math
import re

from ....course.evidence import Case
from .cases import NO_LINE


def training(case: Case, found: dict, wanted: dict) -> str | None:
    """The commonest reasons for what was found."""
    own, right = found["lines"], wanted["lines"]
    if not own:
        return "No line was logged: call `log(text)` for each step."
    if len(own) < len(right) and own == right[:len(own)]:
        return (f"The lines of the last {len(right) - len(own)} step(s) are missing. The number of steps may not be a "
                "multiple of `every`: read what is left after the loop.")
    if len(own) != len(right):
        return f"There are {len(own)} lines for {len(right)} steps: log one line for each step."
    differ = next((i for i, pair in enumerate(zip(own, right)) if pair[0] != pair[1]), None)
    if differ is not None:
        return _why_line(own[differ], right[differ], differ + 1, case)
    if found["late"] != NO_LINE:
        return ("A line may be late by at most 2 × `every` steps, and yours is later. Read the losses back every "
                "`every` steps.")
    if found["early"] != NO_LINE:
        return "A line was logged before the network was called for its step: each batch goes through `model(x)` once."
    if found["training mode"] != wanted["training mode"]:
        return "The model is in another mode (training or evaluation) than before: leave it as it is."
    if "momentum" in case.options:
        return ("The lines are right, but the trained weights are not. Here the optimizer has momentum: let "
                "`optimizer.step()` make each update, once in each step.")
    return ("The lines are right, but the trained weights are not. Do you train on every batch, in order, and does "
            "`optimizer.step()` come after `backward`, in the last step too?")


_PARTS = re.compile(r"step (?P<number>.*): loss (?P<loss>.*), mean (?P<mean>.*), (?P<high>.*) above (?P<limit>.*)")


def _why_line(own: str, right: str, number: int, case: Case) -> str:
    found, wanted = _PARTS.fullmatch(own), _PARTS.fullmatch(right)
    if found is None or found["limit"] != wanted["limit"]:
        return "The text of a line must stay the same, digit for digit."
    if found["number"] != wanted["number"]:
        return "The lines must come in the order of the steps, each with the number of its own step, from step 1."
    if found["loss"] != wanted["loss"] and found["loss"] in ("nan", "0.000000"):
        return ("That is what was in the host's memory before. A copy with `non_blocking=True` returns before it is "
                "done. Record an event after the copy, and `synchronize()` the event before you read.")
    if found["loss"] != wanted["loss"] and _nearly(found["loss"], wanted["loss"], 1e-2):
        return ("That is almost the loss. Do you round it in the text (log six digits), or keep it in half precision? Keep "
                "`loss.detach()` as it is.")
    if found["loss"] != wanted["loss"]:
        rows = case.inputs["x"][0].shape[0]
        if rows > 1 and _nearly(found["loss"], str(rows * float(wanted["loss"])), 1e-4):
            return f"That is {rows} times the loss, and a batch has {rows} rows. Log the mean, not the sum."
        if number == 1:
            return "Even the first loss differs. Is it `F.mse_loss(model(x), y)` of the first batch, before its update?"
        return (f"The losses before are right, but that of step {number} is not. If it is another step's loss, give "
                "each its own tensor in the list. If it is no step's loss, the weights already differ: each step needs "
                "`zero_grad`, the loss, `backward`, `step`, in this order.")
    if wanted["mean"] == "nan" != found["mean"]:
        return "After the first nan loss, the mean is nan too: add up all losses, without exception."
    if found["mean"] != wanted["mean"]:
        if number == 1:
            return ("The first line's mean is the first loss itself. Do sum, count and number start at 0 in each call, or "
                    "continue from an earlier one?")
        why = "The loss is right, but the mean is not. It covers all steps so far: their sum, divided by this step's number."
        if _nearly(found["mean"], wanted["mean"]):
            why += (" Only the last digits differ: add up the Python numbers as you read them, in the order of the steps. A "
                    "sum in float32 rounds differently, and so does a sum of rounded losses.")
        return why
    why = (f"Loss and mean are right, but the count is not. It counts the losses above {case.options['limit']:g} up to "
           "this step, including this one.")
    if found["high"].isdigit() and int(found["high"]) > int(wanted["high"]):
        why += " Yours already includes later steps: count on the host, line by line."
    return why


def _nearly(own: str, right: str, relative: float = 1e-5) -> bool:
    """Whether two numbers, as text, are near: by default as near as float32's rounding may leave them."""
    try:
        return math.isclose(float(own), float(right), rel_tol=relative, abs_tol=2e-6)
    except ValueError:
        return False
