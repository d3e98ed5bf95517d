"""What all lessons' tests hold answers against: the reference solutions, and what is right."""

import functools

from gapless.course.headline import read_fixes
from gapless.course.judge import Truth
from gapless.lessons import LESSONS, find_lesson

from .. import ROOT


@functools.cache
def solution(lesson_id):
    """Exercise name → the function of the reference solution's cell."""
    return read_fixes(find_lesson(lesson_id), ROOT / "solutions" / lesson_id / f"{lesson_id}.ipynb")


@functools.cache
def inputs(lesson_id, name, seed=3, device="vgpu:a10g"):
    """The exercise's inputs, and what is right on them, once for all that is tried."""
    exercise = LESSONS[lesson_id].exercises[name]
    return exercise.plan(seed), Truth(exercise, device)
