"""Cells that mean harm, or look as if they did, graded from end to end; each is to score what it honestly earns.

The exercise is ``ignore_background`` of lesson 02, with the name ``f``: 2 points for the values and 3 for a function that
does not wait. To be right as the slow function is earns nothing.
"""

import pytest

from gapless.grading.grade import Grader
from gapless.grading.sandbox.confine import Limits, find_confinement

from ..toy import PACKAGE, notebook, write

ALL, FOR_BEING_RIGHT, NOTHING = 5, 0, 0

FAST = """
def fast(target):
    return torch.where(target == BACKGROUND, IGNORE, target)
"""
SLOW = """
def slow(target):
    target[torch.nonzero(target == BACKGROUND, as_tuple=True)] = IGNORE
    return target
"""
CONTROLS = {"fast": (FAST + "f = fast", ALL), "slow": (SLOW + "f = slow", FOR_BEING_RIGHT)}


def grade_attempts(attempts, folder, **limits):
    """``attempts``: name → source of a cell that defines ``f``. Name → (points earned, what is said of the values)."""
    cells = {f"attempt_{number}": f"{source}\nattempt_{number} = f" for number, source in enumerate(attempts.values())}
    return dict(zip(attempts, grade_cells("79_attempts", cells, folder, **limits)))


def grade_cells(lesson_id, cells, folder, **limits):
    """``cells``: name of an exercise → source. For each (points earned, what is said of the values)."""
    confinement = find_confinement()
    if confinement.bubblewrap is None:
        pytest.skip("without a sandbox these cells would do to this machine what they try")
    path = write(notebook(*(f"# exercise: {name}\n{source}\n" for name, source in cells.items())), folder / f"{lesson_id}.ipynb")
    found = []
    with Grader(path, "vgpu:a10g", 7, lessons=PACKAGE, limits=Limits(**limits), confinement=confinement) as grader:
        for name in cells:
            verdicts = grader.grade_exercise(name).verdicts
            found.append((sum(verdict.earned for verdict in verdicts), verdicts[0].message))
    return found


def check_attempts(attempts, folder, **limits):
    """``attempts``: name → (source, the points it may earn). Beside them right and slow cells get what they always get."""
    attempts = {**attempts, **CONTROLS}
    found = grade_attempts({name: source for name, (source, _) in attempts.items()}, folder, **limits)
    gained = {name: (earned, message) for name, (earned, message) in found.items() if earned > attempts[name][1]}
    lost = {name: (found[name], points) for name, (_, points) in CONTROLS.items() if found[name][0] < points}
    assert not gained and not lost, f"gained: {gained}\nlost: {lost}"
    return found
