"""Lesson 05: why an answer to ``to_channels_last`` is wrong, where no known mistake gives it."""

from __future__ import annotations


def channels_last(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(found.get("outputs"), list):
        return None
    if len(found["outputs"]) != len(wanted["outputs"]):
        return "The result must be one row of eight numbers for each image: the head's output."
    if isinstance(found.get("gradients"), dict) and None in found["gradients"].values():
        return "A parameter gets no gradient: are all parts of the model used, and is nothing detached?"
    return ("The memory format changes where numbers lie, not the numbers. Go through the slow forward pass line by "
            "line: `mix`, ReLU, the shortcut with zeros appended, the mean. `permute` changes the order of dimensions. "
            "`view` and `reshape` only change how they are counted.")
