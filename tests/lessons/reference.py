"""The reference solutions."""

import functools

from gapless.course.headline import read_fixes
from gapless.lessons import find_lesson

from .. import ROOT


@functools.cache
def solution(lesson_id):
    """Exercise name → the function of the reference solution's cell."""
    return read_fixes(find_lesson(lesson_id), ROOT / "solutions" / lesson_id / f"{lesson_id}.ipynb")
