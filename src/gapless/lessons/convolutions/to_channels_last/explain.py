"""Lesson 05: why an answer to ``to_channels_last`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.plain import difference
from .stage import DTYPE, FIRST_CALL


def channels_last(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(found.get("outputs"), list):
        return None
    if len(found["outputs"]) != len(wanted["outputs"]):
        return "The result must be one row of eight numbers for each image: the head's output."
    if found[DTYPE] != wanted[DTYPE]:
        return ("Leave casts to autocast: in mixed precision the head computes in half precision too, as in the given "
                "function.")
    if isinstance(found.get("gradients"), dict) and None in found["gradients"].values():
        return "A parameter gets no gradient: are all parts of the model used, and is nothing detached?"
    if difference(*([each[name] for name in FIRST_CALL] for each in (found, wanted)), 1e-2, 1e-3) is None:
        return "The first call is right. A later one uses weights, or zeros, that were made for another call."
    if case.options["uneven"]:
        return ("Here the blocks have other widths, and one norm is in evaluation mode. Take widths from the tensors, and "
                "call `block.norm` itself: it knows its mode, eps and momentum.")
    return ("The memory format changes where numbers lie, not the numbers. Go through the slow forward pass line by "
            "line: `mix`, ReLU, the shortcut with zeros appended, the mean. `permute` changes the order of dimensions. "
            "`view` and `reshape` only change how they are counted.")
