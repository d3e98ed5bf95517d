"""Lesson 08: why an epoch's answer is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ....course.plain import difference
from .judged import FAILED, FLAT, LEFT, LOOKED, PLAIN, UNSEEN
from .stage import HOOKS, MODES, PASSED_ON

_WHY = {
    PLAIN: "Every step keeps something as large as a batch's results: a list, a hook, a sum with its graph?",
    LOOKED: "The results on the validation data are kept with their graph, because no backward pass follows.",
    FAILED: "A failed step's tensors are kept by an error's traceback, or by a variable that never gets another value.",
    LEFT: "The epoch is over, and something still refers to its tensors: a hook on the model, a closure, or a cycle of "
          "frame, traceback and list, which waits for Python's garbage collector.",
}

_REPORT = {
    "weights": "The training has changed. Each batch must take one step of the optimizer, with only its own gradients. "
               "Call `zero_grad` before a batch's backward pass, because there may be older ones already.",
    "failures": "Report the whole text of each failure, `str(error)`.",
    "looks": "A look follows each batch whose number is divisible by `every`, even if an earlier one failed. No look "
             "follows a batch that fails itself. A look is the mean of the batches' mean losses, over all of "
             "`validation`, whatever their sizes.",
    # Last: a look more or less has forward passes too.
    "activity": "The hook takes a mean of the absolute values in each forward pass of the body. A failing batch and a "
                "look at the validation data have forward passes too.",
}


def epoch(case: Case, found, wanted) -> str | None:
    """What grows, or what is left."""
    if wanted == PASSED_ON and case.options["broken"] in ("validation", "loader"):
        of = {"validation": "of the validation data", "loader": "that the loader raised"}[case.options["broken"]]
        return (f"You record an error {of} as a failed batch, so broken data stay unnoticed. It has to "
                "reach the caller: put only the batch's forward pass and its loss into the `try`.")
    if wanted == PASSED_ON:
        return ("You skip an error that is not about missing labels, so broken data stay unnoticed. It has to pass: "
                "catch `ValueError` and nothing else.")
    if not isinstance(found, dict):
        return "Return the report: a dict like that of the version that you got."
    if found.get(PLAIN) == UNSEEN:
        return ("The check measures the memory whenever you take a batch. Take each batch when its step begins: "
                "`list(batches)` takes all of them before the first.")
    for kind, why in _WHY.items():
        if found.get(kind, FLAT) != FLAT:
            return why
    if not found.get(MODES):
        return ("No backward pass was made in training mode: is the loop over `batches` there, `loss.backward()` in it, and "
                "the model in training mode?")
    if found.get(MODES, 0) < wanted.get(MODES, 0):
        return ("Some steps train in evaluation mode, so a network with dropout would train without it. After a look in "
                "`model.eval()` call `model.train()` again.")
    if found.get(HOOKS, 0) < wanted.get(HOOKS, 0):
        return "You removed a hook that other code had registered. `remove()` of your own handle leaves others alone."
    if found.get(HOOKS) != wanted.get(HOOKS):
        return "A hook is left on the model: the next epoch would have two. Call the handle's `remove()`."
    return next((why for name, why in _REPORT.items()
                 if difference(found.get(name), wanted.get(name), 1e-3, 1e-5) is not None), None)
