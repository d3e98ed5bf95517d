"""Lesson 08: what a search for the largest batch leaves behind, and why it is wrong where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ....course.exercise import Note
from .stage import AS_WANTED, ASKED, CALLS, FEW, FOUND, LEAK_TOLD, MIB, NOT_OF_MEMORY, SAID

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
        return ("The step is broken, and nobody learns of it: an error that is not of memory has to pass. Catch "
                "`torch.OutOfMemoryError` and nothing else.")
    if wanted[FOUND] == LEAK_TOLD != found[FOUND]:
        return ("Each call of this step leaves more on the device than the one before: for such a step there is no batch "
                "that goes on fitting. After two calls with one batch ask `torch.accelerator.memory_allocated()`, call "
                "once more, and raise a ValueError that says so where it has grown.")
    if "not twice in a row" in str(found[FOUND]):
        return ("The second call finds what the first has left: its results, which the step keeps until it has new ones, "
                "or the optimizer's state. A batch fits where two calls in a row fit.")
    if "fits too" in str(found[FOUND]):
        return ("Does something hold the memory of an earlier trial: an error and its traceback, pieces in reserve that "
                "`torch.accelerator.empty_cache()` would give back, another trial inside the "
                "`except`? Or does the search end early?")
    if "does not fit" in str(found[FOUND]):
        return "Return the last batch that fitted, not the first that did not; and one that was tried."
    if found[FOUND] == wanted[FOUND] and found[ASKED] != AS_WANTED:
        return "Try batches from 1 up to the most, and no others."
    if found[FOUND] == wanted[FOUND] and found[CALLS] != FEW:
        return "Double until one does not fit, then halve the gap: some twenty trials, whatever the most is."
    if found[FOUND] == wanted[FOUND] and found[SAID] != wanted[SAID]:
        return "A 0 without a word is a riddle: print a line, or warn, that not even a batch of 1 fits."
    if found.get(HELD, AS_BEFORE) != AS_BEFORE:
        return ("Something still holds tensors of a trial: an error that is kept, whose traceback holds the frames of the "
                "failed step, or a cycle through it that waits for Python's garbage collector.")
    return None
