"""Lesson 08: what a search for the largest batch leaves behind, and why it is wrong where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ....course.exercise import Note
from .stage import AS_WANTED, ASKED, CALLS, FEW, FOUND, LEAK_TOLD, MIB, NOT_OF_MEMORY, RETURNS, SAID, TWICE

HELD, AS_BEFORE = "memory after the call", "as before"


def seen(case: Case, answer, notes: list[Note]):
    """The answer, with what the memory holds once the steps are gone."""
    if not isinstance(answer, dict) or len(notes) < 2:
        return answer
    more = notes[-1].held_bytes - notes[0].held_bytes
    return {**answer, HELD: AS_BEFORE if more <= 0 else f"{more / MIB:.0f} MiB more"}


def largest_batch(case: Case, found, wanted) -> str | None:
    """What its trials tell."""
    if not isinstance(found, dict):
        return None
    if wanted[FOUND] == f"raised: {NOT_OF_MEMORY}" != found[FOUND]:
        return ("The step is broken, and your function hides it: an error that is not about memory has to pass. Catch "
                "`torch.OutOfMemoryError` and nothing else, whatever the error's text says.")
    if case.options["kind"] == RETURNS and found[FOUND] == LEAK_TOLD:
        return ("This step does not leak. It returns its loss, which your function still held when it compared the memory. "
                "Call `step(1)` without a name for its result.")
    if wanted[FOUND] == LEAK_TOLD != found[FOUND]:
        return ("Each call of this step leaves more on the device than the one before, so no batch keeps fitting. After "
                "two calls with one batch, read `torch.accelerator.memory_allocated()` and call once more. If it has "
                "grown, raise a ValueError that says so.")
    if "not twice in a row" in str(found[FOUND]):
        return ("The second call finds what the first has left: the optimizer's state, or results that the step keeps "
                "until it has new ones. A batch fits if two calls in a row fit.")
    if "fits too" in str(found[FOUND]):
        return ("Does something hold the memory of an earlier trial: an error and its traceback, or another trial inside "
                "the `except`? Are there pieces in reserve that `torch.accelerator.empty_cache()` would return? Or does "
                "the search end too early?")
    if "does not fit" in str(found[FOUND]):
        return "Return the last batch that fitted, not the first that did not. And return only a batch that you tried."
    if found[FOUND] == wanted[FOUND] and found[ASKED] != AS_WANTED:
        return "Try only batches from 1 up to `most`."
    if found[FOUND] == wanted[FOUND] and not found[TWICE]:
        return ("Call the step twice in a row for each batch, with nothing between the calls: the second needs room for "
                "what the first has left.")
    if found[FOUND] == wanted[FOUND] and found[CALLS] != FEW:
        return "Double until one does not fit, then halve the gap: about twenty trials, whatever `most` is."
    if found[FOUND] == wanted[FOUND] and found[SAID] != wanted[SAID]:
        return "A 0 without a message is hard to understand. Print a line, or warn, that not even a batch of 1 fits."
    if found.get(HELD, AS_BEFORE) != AS_BEFORE:
        return ("Something still holds tensors of a trial: a kept error, whose traceback holds the frames of the failed "
                "step, or a cycle through it that waits for Python's garbage collector.")
    return None
