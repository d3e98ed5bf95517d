"""Lesson 04: why what `prefetch` gives is wrong."""

from __future__ import annotations

from ....course.evidence import Case

_ALONE = ("`yield` stands inside `with stream:`, or the stream was set and not set back: so the loop's own operators go to "
          "the stream of the copies, and nothing runs beside anything. Only the copies belong there: leave the `with` "
          "before `yield`.")


def explain_prefetch(case: Case, found: dict, wanted: dict) -> str | None:
    """The commonest reasons."""
    if found.get("raised") not in (None, wanted["raised"]):
        return "The loop gets an error with another text: raise the loader's own error as it is."
    if found.get("raised") != wanted["raised"]:
        return ("The loader raised an error, and the loop never hears of it: it takes the rest of the epoch for done. Pass "
                "it on as it is, after the batches that came before it.")
    own, right = found.get("batches"), wanted["batches"]
    if own != right:
        return _why_batches(own, right, wanted["raised"] is not None)
    if found["stream of the loop"] != wanted["stream of the loop"] or found["stream after the loop"] != "as before":
        return _ALONE
    if found["taken ahead"] != wanted["taken ahead"]:
        return ("That many batches were on their way at once, and each takes the device's memory. One batch ahead is "
                "enough: while one is computed with, one is copied.")
    return None


def _why_batches(own: list, right: list, raises: bool) -> str | None:
    if own == right[:-1] and raises:
        return ("The loader raised while a batch was held ready, and that batch is lost. Keep the error, yield what is "
                "held, and raise it then.")
    if own == right[:-1] and len(right) == 1:
        return ("There is one batch, and it never comes: when the loader ends, the batch that is held ready is still to be "
                "yielded.")
    if own == right[:-1]:
        return ("The last batch is lost: when the loader ends, one is still held ready. Yield it after the loop.")
    if own == right[1:]:
        return "The first batch is lost: it was taken to begin with, and never yielded."
    if own[:len(right)] == right:
        return "A batch came once too often: after the loop, is what is held ready the last one once more?"
    if len(own) < len(right) and own == right[:len(own)]:
        return (f"Only the first {len(own)} of {len(right)} batches come: does the loop end as soon as the loader has "
                "nothing more?")
    if len(own) < len(right) and all(batch in right for batch in own):
        return f"Of the {len(right)} batches of the loader only {len(own)} come: each is to be yielded, in their order."
    if len(own) == len(right) and sorted(map(str, own)) == sorted(map(str, right)):
        return "All batches come, in another order: a batch's place tells which it is."
    if len(own) == len(right) and all(a == b for a, b in zip(own, [right[-1]] * len(right))):
        return "Each batch is the last one: is one buffer filled again and again, while what was yielded still lies in it?"
    return ("A batch has to come as the loader made it, each tensor of it on the device: the same dicts, lists and tuples, "
            "in the same dtypes, and what is no tensor as it was.")
