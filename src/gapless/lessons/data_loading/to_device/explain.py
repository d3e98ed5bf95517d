"""Lesson 04: why what `to_device` gives is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case


def explain_batch(case: Case, found: dict, wanted: dict) -> str | None:
    """Where a part has become the device."""
    if "device(type=" in str(found["batches"]):
        return ("A part of the batch has become the device: has a call its arguments the wrong way round, `to_device(value, "
                "device)`?")
    return None
