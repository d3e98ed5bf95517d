"""From what a learner gives to a check to the exercise and the text of its marked cell."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Collection

from ..course.notebooks.cells import CellError
from ..marker import exercise_name, file_name, joined
from ..vgpu.process.location import is_notebook_cell


class CannotCheck(ValueError):
    """What was given to a check is no exercise's function; the message says what to give. In a notebook it is shown without
    a traceback: all of that would be this package's."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows."""
        return [str(self)]


def name_of(given, exercises: Collection[str]) -> str:
    """The exercise that ``given`` is for: a function, or an exercise's name. Raises CannotCheck."""
    known = ", ".join(exercises)
    if isinstance(given, str):
        if given in exercises:
            return given
        raise CannotCheck(f"{given!r} is not an exercise of this lesson; its exercises are {known}.")
    if not callable(given):
        raise CannotCheck(f"check takes a function, but this is a {type(given).__name__}. Give the function itself, without "
                          f"calling it: lesson.check({next(iter(exercises))}).")
    own = getattr(given, "__name__", type(given).__name__)
    marked = exercise_name(_cell_text(given) or "")
    if marked in exercises:
        return marked
    if own in exercises:
        return own
    shell = ipython_shell()
    bound = [name for name, value in (shell.user_ns if shell is not None else {}).items() if value is given]
    for name in bound:
        if name in exercises:
            return name
    raise CannotCheck(f"{own!r} is not an exercise of this lesson; its exercises are {known}. Keep the name that the "
                      "function had.")


def source_of(given, name: str) -> str | Callable:
    """The text of the exercise's cell, as it was run last; where ``given`` is no notebook's, as in a script, itself.

    Raises CellError where grading would not find what was given: it reads the cell marked with the exercise's name.
    """
    newest, line = newest_cell(name), f"# exercise: {name}"
    if isinstance(given, str):
        if newest is None:
            raise CellError(f"no cell that begins with the line '{line}' has been run yet: run it, then this one")
        return newest
    filename = given.__code__.co_filename if hasattr(given, "__code__") else ""
    text = _cell_text(given)
    if text is not None and exercise_name(text) == name:
        return newest or text
    in_notebook = is_notebook_cell(filename) or (ipython_shell() is not None and not os.path.exists(filename))
    if (text is not None and in_notebook) or (newest is None and filename and in_notebook):
        first = (text or "").strip().partition("\n")[0]
        begins = f" (it begins with `{first[:80]}`)" if first else ""
        raise CellError(f"the function that you gave comes from a cell that does not begin with the line '{line}'{begins}. "
                        "Grading finds the exercise by that line" + (", and would take the older cell that has it"
                                                                     if newest is not None else "")
                        + ": put it at the top of the cell that you want to be checked, and run that cell again")
    return newest or given


def newest_cell(name: str) -> str | None:
    """The text of the cell marked ``name`` that was run last, as it stands in the notebook, whether or not it ran to its
    end; of a program of files, the texts of all. None outside IPython."""
    shell = ipython_shell()
    # ``In`` holds what IPython has made of the text, where magics are calls: grading gets the text.
    history = shell.history_manager.input_hist_raw if shell is not None else []
    found = next((source for source in reversed(history) if exercise_name(source) == name), None)
    return found and joined(found, {file: source for source in history
                                    if exercise_name(source) is None and (file := file_name(source))})


def unlike_those_run(cells: list[str]) -> list[str]:
    """The names (of exercises, and of a program's files) whose cell that was run last is none of the texts ``cells``: of a
    notebook's file that was not saved since, or of cells that were changed and not run. Empty outside IPython."""
    shell = ipython_shell()
    run: dict[str, str] = {}
    for source in shell.history_manager.input_hist_raw if shell is not None else []:
        if name := exercise_name(source) or file_name(source):
            run[name] = source
    there: dict[str, set[str]] = {}
    for source in cells:
        if name := exercise_name(source) or file_name(source):
            there.setdefault(name, set()).add(same_text(source))
    return [name for name, source in run.items() if name in there and same_text(source) not in there[name]]


def same_text(source: str) -> str:
    """Equal for texts that differ in blanks at the ends of lines alone, which editors and formats of files change."""
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def ipython_shell():
    """IPython's shell, or None outside it."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _cell_text(given) -> str | None:
    """The text of the cell or file that a function's code is from, a cell's as it stands in the notebook; or None."""
    code = getattr(given, "__code__", None)
    text = "".join(linecache.getlines(code.co_filename)) if code is not None else ""
    shell = ipython_shell()
    if text and shell is not None:
        history = shell.history_manager
        for raw, parsed in zip(reversed(history.input_hist_raw), reversed(history.input_hist_parsed)):
            if parsed.strip() == text.strip():
                return raw
    return text or None
