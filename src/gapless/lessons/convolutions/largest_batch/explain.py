"""Lesson 05: why an answer about large batches is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from .stage import AS_WANTED, ASKED, BORDER, CALLS, FEW, HELD, LARGER, LARGEST, NOT_OF_MEMORY, SHOWN


def largest_batch(case: Case, found: dict, wanted: dict) -> str | None:
    """What its trials tell."""
    if found[LARGEST] is None:
        return "It returned nothing: is there a `return`?"
    if wanted[LARGEST] == f"raised: {NOT_OF_MEMORY}":
        return ("The step is broken, and nobody learns of it: an error that is not of memory has to pass. Catch "
                "`torch.OutOfMemoryError` and nothing else.")
    if found[ASKED] != AS_WANTED:
        return "Look among 8, 16, 24, … up to the most."
    if found[LARGEST] == wanted[LARGEST] and found[SHOWN] != BORDER:
        return "That is the largest, and no trial of yours shows it: try it, and 8 more, or up to `most`."
    if found[LARGEST] == wanted[LARGEST] and found[CALLS] != FEW:
        return "Whatever fits, smaller sizes fit too: try the middle, and half of what is left is decided."
    if found[HELD]:
        return ("Something still holds tensors of a trial: what the step returned, or an error, whose traceback holds the "
                "frames of the failed step.")
    if isinstance(found[LARGEST], float):
        return "A whole number is wanted, an `int`: divide with `//`."
    if isinstance(found[LARGEST], int) and found[LARGEST] > wanted[LARGEST]:
        return ("That one does not fit, or is more than `most`: return the largest size that fitted, not the first that did "
                "not.")
    if isinstance(found[LARGEST], int) and found[LARGEST] < wanted[LARGEST]:
        if found[SHOWN] == LARGER:
            return "In a trial of yours a larger size has fitted: return the largest that did."
        if found[SHOWN] != BORDER:
            return "A larger size fits, and nobody tried it: the search ends early."
        return ("A larger size does fit. Does something hold the memory of an earlier trial (a result, an error and its "
                "traceback, another trial inside the `except`)?")
    return None
