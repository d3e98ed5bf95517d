"""Evidence → verdicts, in words that say what, why and what next. Runs no learner's code."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import replace

from ..incoming import clean_text
from ..marker import parts
from .check import Look
from .checks.measured import DRIFT, OfMeasurement, beside, read_back, shirked, void
from .checks.waits import NoMoreWaits, are_checked
from .evidence import Evidence, Plan
from .exercise import Exercise
from .truth import Truth
from .verdicts import FAIL, PASS, Verdict

_WANTED_LESS = "waits less often, or takes less time or less memory"

# On the virtual GPU: the share of its time that a function has to save to be better than the slow one. Where the learner's
# tensors are in another process than the slow function's, the Python of a deepcopy is counted otherwise: 1.7 % of a step.
_GAIN = 0.05

_LONGEST_MESSAGE = 6000  # characters


def judge(exercise: Exercise, plan: Plan, evidence: Evidence, truth: Truth | None = None, source: str | None = None
          ) -> list[Verdict]:
    """One verdict for each of the exercise's checks, in their order. ``truth``: of this exercise and device, where some
    of it is known already. ``source``: the text of the cell, whose lines are quoted.

    What is measured counts only once the values are right: what does nothing is fast. Where the function as handed out is
    right, values count only once something else is better than there.
    """
    cells = {} if source is None else {exercise.name: source, **parts(source)}
    look = Look(exercise, plan, evidence, truth or Truth(exercise, evidence.device), cells)
    for check in exercise.checks:
        look.found[check.name] = check.judge(look)
    _mind_waits(look)
    right, values = look.found["values"]
    if right == PASS and exercise.handed_out_is_right and not _better(look):
        look.found["values"] = FAIL, (f"{values} The function that you were given has them right too: these points count "
                                      f"once yours {_WANTED_LESS}, than that one.")
        look.found |= {check: (FAIL, f"Not counted before yours {_WANTED_LESS}: {message}")
                       for check, (outcome, message) in look.found.items() if outcome != FAIL}
    verdicts = []
    for check in exercise.checks:
        outcome, message = look.found[check.name]
        message = clean_text(message, _LONGEST_MESSAGE)  # it quotes what the learner's function said and answered
        verdicts.append(Verdict(f"{exercise.name}.{check.name}", exercise.name, check.points, outcome, message))
    return verdicts


def _mind_waits(look: Look) -> None:
    """Where no check is of waits, the last one that is measured fails over a wait that the slow function has not."""
    exercise = look.exercise
    last = exercise.checks[-1]
    if not isinstance(last, OfMeasurement) or are_checked(exercise) or look.found[last.name][0] != PASS:
        return
    outcome, waits = NoMoreWaits(0, exercise.measurement.right_waits).judge(look)
    if outcome == FAIL:
        look.found[last.name] = FAIL, f"{look.found[last.name][1]} But it waits where the slow function does not. {waits}"


def _better(look: Look) -> bool:
    """Whether anything but the values is better than in the slow function; where there is nothing else, all is."""
    evidence = look.evidence
    if is_handed_out(look.cells.get(look.exercise.name), look.exercise.slow):
        return False
    others = [check for check in look.exercise.checks if isinstance(check, OfMeasurement)]
    if not others or any(look.found[check.name][0] != FAIL and not check.passes_as_handed_out(look) for check in others):
        return True
    if not evidence.simulated and all(look.found[check.name][0] == PASS for check in others):
        return True  # on a GPU on which the model solution is no better either
    sizes = [measured for measured in (evidence.full, evidence.trial) if measured is not None]
    if not sizes or any(void(look, measured) or beside(look.exercise, measured) for measured in sizes):
        return False
    if len(sizes) == 2 and shirked(evidence) is not None:
        return False
    if any(read_back(look.exercise, size) and not read_back(look.exercise, replace(size, learner=size.before))
           for size in sizes):
        return False
    share = 1 - (_GAIN if evidence.simulated else DRIFT)
    return any(all(check.is_less(size.learner, size.before, share) for size in sizes) for check in others)


def is_handed_out(source: str | None, slow: Callable) -> bool:
    """Whether a cell is the slow function and nothing else, except for comments, layout, docstring and annotations."""
    own = None if source is None else _bare(source)
    return own is not None and own == _bare(textwrap.dedent(inspect.getsource(slow)))


def _bare(source: str) -> str | None:
    try:
        function, = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(function, ast.FunctionDef):
        return None
    if ast.get_docstring(function) is not None:
        del function.body[0]
    for each in ast.walk(function):
        if isinstance(each, ast.arg):
            each.annotation = None
    function.returns = None
    return ast.dump(function)
