"""Lesson 05: why an answer to ``to_channels_last`` is wrong, where no known mistake gives it."""

from __future__ import annotations


def channels_last(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(found.get("outputs"), list):
        return None
    if len(found["outputs"]) != len(wanted["outputs"]):
        return "One row of eight numbers an image is wanted: the head's result."
    if isinstance(found.get("gradients"), dict) and None in found["gradients"].values():
        return "A parameter gets no gradient: are all parts of the model used, and is nothing detached?"
    return ("The memory format changes where numbers lie and none of the numbers. Go through the slow forward pass line by "
            "line: `mix`, ReLU, the shortcut with zeros behind, the mean. `permute` changes the order of dimensions, `view` "
            "and `reshape` only how they are counted.")
