"""Lesson 04: why what `prefetch` gives is wrong."""

from __future__ import annotations

from ....course.evidence import Case

_ALONE = ("`yield` is inside `with stream:`, or you set the stream and did not set it back. So the loop's own operators "
          "go to the stream of the copies, and nothing overlaps. Only the copies belong there: leave the `with` before "
          "`yield`.")


def explain_prefetch(case: Case, found: dict, wanted: dict) -> str | None:
    """The commonest reasons."""
    if found.get("raised") not in (None, wanted["raised"]):
        return "The loop gets an error with another text: raise the loader's own error as it is."
    if found.get("raised") != wanted["raised"]:
        return ("The loader raised an error, but the loop never gets it and believes that the epoch is done. Pass the "
                "error on unchanged, after the batches that came before it.")
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
        return ("The loader raised while you held a batch, and that batch is lost. Keep the error, yield the batch, and "
                "then raise the error.")
    if own == right[:-1] and len(right) == 1:
        return ("There is one batch, and it never comes: when the loader ends, you still have to yield the batch that "
                "you hold.")
    if own == right[:-1]:
        return ("The last batch is lost: when the loader ends, you still hold one. Yield it after the loop.")
    if own == right[1:]:
        return "The first batch is lost: it was taken to begin with, and never yielded."
    if own[:len(right)] == right:
        return "A batch came once too often: after the loop, do you yield the last one again?"
    if len(own) < len(right) and own == right[:len(own)]:
        return (f"Only the first {len(own)} of {len(right)} batches come: does the loop end as soon as the loader has "
                "nothing more?")
    if len(own) < len(right) and all(batch in right for batch in own):
        return f"Of the {len(right)} batches of the loader only {len(own)} come. Yield every one, in the loader's order."
    if len(own) == len(right) and sorted(map(str, own)) == sorted(map(str, right)):
        return "All batches come, but in another order: keep the loader's order."
    if len(own) == len(right) and all(a == b for a, b in zip(own, [right[-1]] * len(right))):
        return ("Each batch is the last one: do you fill one buffer again and again, although it still holds the batch "
                "that you yielded?")
    return ("A batch must come as the loader made it, with each tensor on the device: the same dicts, lists and tuples, "
            "the same dtypes, and everything that is not a tensor unchanged.")
