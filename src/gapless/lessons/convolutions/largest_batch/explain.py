"""Lesson 05: why an answer about large batches is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from .stage import AS_WANTED, ASKED, BORDER, CALLS, FEW, HELD, LARGER, LARGEST, RAISED, SHOWN


def largest_batch(case: Case, found: dict, wanted: dict) -> str | None:
    """What its trials tell."""
    if found[LARGEST] is None:
        return "It returned nothing: is there a `return`?"
    if str(wanted[LARGEST]).startswith(RAISED):
        return ("The step is broken, and your function hides it: an error that is not about the device's memory has to "
                "pass. Catch `torch.OutOfMemoryError` and nothing else.")
    if found[ASKED] != AS_WANTED:
        return "Look among 8, 16, 24, … up to `most`."
    if found[LARGEST] == wanted[LARGEST] and found[SHOWN] != BORDER:
        return "That is the largest, but none of your trials shows it: try it, and try 8 more unless that exceeds `most`."
    if found[LARGEST] == wanted[LARGEST] and found[CALLS] != FEW:
        return "If a size fits, all smaller sizes fit too. Try the middle: it rules out half of the remaining sizes."
    if found[HELD]:
        return ("Something still holds tensors of a trial: a result of the step, or an error, whose traceback holds the "
                "frames of the failed step.")
    if isinstance(found[LARGEST], float):
        return "Return a whole number, an `int`: divide with `//`."
    if wanted[LARGEST] == 0 and found[SHOWN] == f"that {found[LARGEST]} does not fit":
        return f"Your own trial shows that {found[LARGEST]} does not fit. If not even 8 fits, the answer is 0."
    if isinstance(found[LARGEST], int) and found[LARGEST] > wanted[LARGEST]:
        return ("This size does not fit, or is more than `most`. Return the largest size that fitted, not the first that "
                "did not.")
    if isinstance(found[LARGEST], int) and found[LARGEST] < wanted[LARGEST]:
        if found[SHOWN] == LARGER:
            return "A larger size fitted in one of your trials: return the largest that did."
        if found[SHOWN] != BORDER:
            return "A larger size fits, and you did not try it: the search ends too early."
        return ("A larger size does fit. Does something hold the memory of an earlier trial (a result, an error and its "
                "traceback, another trial inside the `except`)?")
    return None
