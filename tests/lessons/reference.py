"""What all lessons' tests hold answers against: the reference solutions, and what is right."""

import functools

from gapless.course.headline import read_fixes
from gapless.course.truth import Truth
from gapless.lessons import LESSONS, find_lesson

from .. import ROOT


@functools.cache
def solution(lesson_id):
    """Exercise name → the function of the reference solution's cell."""
    return read_fixes(find_lesson(lesson_id), ROOT / "solutions" / lesson_id / f"{lesson_id}.ipynb")


def inputs(lesson_id, name, seed=3, device="vgpu:a10g"):
    """The exercise's inputs, and what is right on them, once for all that is tried. Where the device has no part in what is
    right, it is the same for all devices."""
    on_device = LESSONS[lesson_id].exercises[name].right.on_device
    return _plan(lesson_id, name, seed), _truth(lesson_id, name, seed, device if on_device else "vgpu:a10g")


# Of a few exercises: the tests of one come one after another (conftest.py), and some inputs are large.
@functools.lru_cache(8)
def _plan(lesson_id, name, seed):
    return LESSONS[lesson_id].exercises[name].plan(seed)


@functools.lru_cache(8)
def _truth(lesson_id, name, seed, device):
    return Truth(LESSONS[lesson_id].exercises[name], device)


@functools.lru_cache(8)
def runs(lesson_id, name, seed=3):
    """What the slow function and the model solution took on those inputs: for ``gather``."""
    return {}
