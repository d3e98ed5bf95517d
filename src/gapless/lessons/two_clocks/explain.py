"""Lesson 00: why an answer is wrong. The usual mistakes are made again, and recognised by what they give."""

from __future__ import annotations


def no_number(own) -> str:
    if own is None:
        return "It returned nothing: is there a `return`? `print` shows a number but does not return it."
    return "Return one number: the time of a step in milliseconds."
