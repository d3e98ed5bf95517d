"""Lesson 08: why an epoch's answer is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ....course.plain import difference
from .judged import FAILED, FLAT, LEFT, LOOKED, PLAIN, UNSEEN
from .stage import HOOKS, MODES, PASSED_ON

_WHY = {
    PLAIN: "In every step something is kept that is as large as a batch's results: a list, a hook, a sum with its graph?",
    LOOKED: "What was computed on the validation data is kept, with its graph: nobody goes backward from it.",
    FAILED: "What failed is kept with an error's traceback, or by a variable that nothing takes the place of.",
    LEFT: "The epoch is over and something still refers to its tensors: a hook on the model, a closure, or a cycle of "
          "frame, traceback and list, which waits for Python's garbage collector.",
}

_REPORT = {
    "weights": "The training is another one. Each batch takes one step of the optimizer, with its own gradients alone.",
    "failures": "The whole text of each failure is wanted, `str(error)`.",
    "looks": "A look follows each batch whose number `every` divides, whichever failed before it. It is the mean of the "
             "batches' mean losses, of all that `validation` has, however large they are.",
    # Last: a look more or less has forward passes too.
    "activity": "The hook takes a mean of the absolute values in each forward pass of the body. A batch that fails and a "
                "look at the validation data have forward passes too.",
}


def epoch(case: Case, found, wanted) -> str | None:
    """What grows, or what is left."""
    if wanted == PASSED_ON:
        return ("An error that is no lack of labels was left out like one: nobody learns that the data are broken. It "
                "has to pass: catch `ValueError` and nothing else.")
    if not isinstance(found, dict):
        return "The report is wanted: a dict as the function that was handed out returns it."
    if found.get(PLAIN) == UNSEEN:
        return ("The memory is looked at whenever a batch is taken. Take each batch when its step begins: `list(batches)` "
                "has all of them before the first.")
    for kind, why in _WHY.items():
        if found.get(kind, FLAT) != FLAT:
            return why
    if not found.get(MODES):
        return ("No backward pass was made in training mode: is the loop over `batches` there, `loss.backward()` in it, and "
                "the model in training mode?")
    if found.get(MODES, 0) < wanted.get(MODES, 0):
        return ("Steps train in evaluation mode: a network with dropout would train without it. After a look in "
                "`model.eval()` call `model.train()` again.")
    if found.get(HOOKS, 0) < wanted.get(HOOKS, 0):
        return "A hook was removed that somebody else had registered: `remove()` of your own handle leaves others alone."
    if found.get(HOOKS) != wanted.get(HOOKS):
        return "A hook is left on the model: the next epoch would have two. Call the handle's `remove()`."
    return next((why for name, why in _REPORT.items()
                 if difference(found.get(name), wanted.get(name), 1e-3, 1e-5) is not None), None)
