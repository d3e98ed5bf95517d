"""The text of an exercise's cell as it is handed out, from the lesson itself: also where no repository is at hand."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

# What nbgrader leaves in place of the solution, in the same words: nbgrader_config.py takes them from here.
YOUR_VERSION = "# Edit the version above, or write yours here: a function of the same name replaces it."


def handed_out(exercise) -> str:
    """The cell of a :class:`gapless.course.exercise.Exercise`: its marker line, the slow function without its docstring, and
    the comment that stands where the learner's version goes. ``exercise.teaching.stub`` is taken instead where it is given.

    Raises ValueError where the slow function's source cannot be the cell's.
    """
    stated = exercise.teaching.stub
    if stated is not None:
        return stated
    name = getattr(exercise.slow, "__name__", "")
    if name != exercise.name:
        raise ValueError(f"the slow function of exercise {exercise.name!r} is called {name!r}: give the exercise a stub")
    try:
        source = textwrap.dedent(inspect.getsource(exercise.slow))
    except (OSError, TypeError) as error:
        raise ValueError(f"exercise {exercise.name!r}: its slow function has no source ({error}): give it a stub") from None
    return f"# exercise: {exercise.name}\n{_without_docstring(source).rstrip()}\n{YOUR_VERSION}"


def _without_docstring(source: str) -> str:
    function: Any = ast.parse(source).body[0]  # a def
    if ast.get_docstring(function) is None or len(function.body) == 1:
        return source
    docstring = function.body[0]
    lines = source.splitlines(keepends=True)
    end = docstring.end_lineno
    while not lines[end].strip():  # the blank lines behind it too
        end += 1
    return "".join(lines[: docstring.lineno - 1] + lines[end:])
