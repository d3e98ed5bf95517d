"""Lesson 08: how a budget was found out, and why it is wrong where no known mistake gives it."""

from __future__ import annotations

from math import isclose

import torch

from ....course.checks.peak_bytes import size_in_words
from ....course.evidence import Case
from ....course.exercise import Notes
from ..stage import GRADIENTS, TRAINED
from .stage import HOOKS, MODE, RATES, make_network

FOUND_BY, PREDICTING, _LEAVING = "found out by", "predicting", "leaving memory behind"
_MOST_TAKEN = 0.4  # of the peak that it says
_WHAT = {
    "parameters": "each of `model.parameters()` once, by its `nbytes`.",
    "buffers": "each of `model.buffers()`, by its `nbytes`.",
    "gradients": "as large as the trained parameters, and in their dtype.",
    "optimizer state": "the tensors that `optimizer.state` holds on the device after a step: one or more, each as large "
                       "as its parameter, for each parameter with a gradient.",
    "activations": "the tensors that the forward pass leaves on the device until the backward pass: what its operators "
                   "have saved.",
    "peak": "the most at any moment of the step: what is always there, plus the fullest moment.",
}
_LEFT = {HOOKS: "hooks are left on the model", GRADIENTS: "gradients are left on its parameters",
         TRAINED: "`requires_grad` of its parameters has changed", RATES: "the optimizer's learning rate has changed"}
_NEAR = 0.02
MIB = 2**20


def seen(case: Case, answer, notes: Notes):
    """The answer, with whether the function left something on the device, by the gradients of the model for example."""
    if not isinstance(answer, dict):
        return answer
    left = notes[-1].held_bytes - notes[0].held_bytes if len(notes) >= 2 else 0
    return {**answer, FOUND_BY: _LEAVING if left > MIB else PREDICTING}


def verified(case: Case, answer, notes: Notes, device: torch.device):
    """The answer, with how it was found out: by so much of the device's memory that the step itself was run, or by less."""
    if not isinstance(answer, dict) or not isinstance(answer.get("peak"), (int, float)):
        return answer
    if notes.ended.held_bytes - notes.begun.held_bytes > MIB:
        return {**answer, FOUND_BY: _LEAVING}
    model, batch = make_network(case.options, torch.device("meta"))
    given = sum({id(each): each.nbytes for each in (*model.parameters(), *model.buffers(), *batch)}.values())
    # Above the least that was held: who begins with much, and gives it up to run the step in its place, has run the step.
    taken = notes.ended.peak_bytes - notes.least_bytes - given
    copied = given - sum(each.nbytes for each in batch)  # of the model, on which to predict
    ran = taken > _MOST_TAKEN * max(answer["peak"], 0) + copied and taken > MIB
    return {**answer, FOUND_BY: "running it"} if ran else answer


def budget(case: Case, found, wanted) -> str | None:
    """What is asked for where it goes wrong first, and what the wrong number is."""
    if not isinstance(found, dict):
        return "Return a dict from the name of each part to its bytes."
    for name, right in wanted.items():
        own = found.get(name)
        tolerance = 0 if type(right) is int else 0.1
        if name in _WHAT and isinstance(own, (int, float)) and not isclose(own, right, rel_tol=tolerance):
            why = _cause(case, name, own, found, wanted)
            return (why or f"{name.capitalize()}: {_WHAT[name]}{_compared(own, right)}") + _of_blocks(name, own, right)
    if found.get(MODE, wanted.get(MODE)) != wanted.get(MODE):
        return ("The numbers are right, but the model's mode has changed. The next training would run without dropout, "
                "and with a norm's old statistics. Leave the mode alone, or restore it.")
    for name, what in _LEFT.items():
        if found.get(name, wanted.get(name)) != wanted.get(name):
            return f"The numbers are right, but {what}. Leave the model and the optimizer as they were."
    if found.get(FOUND_BY) == _LEAVING:
        return ("It leaves something on the device. What a prediction makes has to go again: gradients, a copy of the "
                "model, saved tensors.")
    if found.get(FOUND_BY, PREDICTING) != PREDICTING:
        return ("It is right, but it must use only a part of the memory that it predicts, and leave nothing behind.")
    return None


def _compared(own: float, right: float) -> str:
    """How far off a number is: as a share where that says something, else in bytes."""
    if 0.5 < own / (right or own or 1) < 1.5 or not right:
        apart = own - right
        return f" Yours is {size_in_words(abs(apart))} too {'much' if apart > 0 else 'little'}."
    return f" Yours is {own / right:.3g} times that."


def _of_blocks(name: str, own: float, right: float) -> str:
    """What may put a measured number a little off."""
    if name != "activations" or not right or not 0.5 < own / right < 1.5:
        return ""
    return (" If you read `memory_allocated`, take smaller parts of the batch: the allocator's blocks can be larger than "
            "the tensors in them.")


def _cause(case: Case, name: str, own: float, found: dict, wanted: dict) -> str | None:
    if name == "parameters" and case.options["network"] == "text" and own > wanted[name]:
        return "You count a tied weight twice: `model.parameters()` gives each parameter once."
    if name == "gradients" and own == wanted["parameters"]:
        return "A frozen parameter gets no gradient: count those with `requires_grad`."
    if name == "activations" and case.options["autocast"] and own > wanted[name]:
        return ("Not everything that a forward pass leaves grows with the batch: autocast's copies of the weights do "
                "not. Draw the line through two batches, not through one and zero.")
    rows = sum(each.nbytes for each in make_network(case.options, torch.device("meta"))[1])
    if name == "peak" and isclose(own + rows, wanted[name], rel_tol=_NEAR) and rows > _NEAR * own:
        return f"The batch, {size_in_words(rows)}, is on the device too, all the time."
    others = sum(value for part, value in found.items() if part in _WHAT and part != "peak")
    if name == "peak" and isclose(own, others, rel_tol=_NEAR):
        return ("The peak is not the sum of all. When all gradients are there, the activations are gone. The step has "
                "several moments, and the fullest one counts.")
    return None
