"""Lesson 07: how ``make_step`` is judged."""

from __future__ import annotations

from ....course.evidence import Case
from ....course.exercise import Notes
from ..judged import COMPILATIONS, FEW, counted_in_words


def seen_compilations(case: Case, answer, notes: Notes):
    """At most two compilations are wanted."""
    return counted_in_words(answer, notes, COMPILATIONS, 2, FEW, None)
