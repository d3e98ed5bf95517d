"""A NameError in a notebook says which cell makes the name: most often that cell was not run, or not since a restart."""

from __future__ import annotations

import difflib
import sys
import traceback
from collections.abc import Iterable

from ..vgpu.process.location import is_notebook_cell

EXPLAINED = "What to do: "  # the explanation starts with it


def explanation(name: str, exercises: Iterable[str], known: Iterable[str]) -> str:
    """What to do about the undefined ``name``, in one line. ``exercises``: the lesson's; ``known``: names that are there."""
    if name in exercises:
        return (f"{EXPLAINED}`{name}` is made by the cell that starts with `# exercise: {name}`. Run that cell, then this "
                "one again. (If you ran it: it stopped with an error before its function was made.)")
    like = difflib.get_close_matches(name, [each for each in known if not each.startswith("_")], n=1, cutoff=0.8)
    misspelt = f"there is a `{like[0]}`: is `{name}` misspelt? If not, it" if like else f"`{name}`"
    return (f"{EXPLAINED}{misspelt} is made by a cell further up. Choose Run → Run All Above Selected Cell, then run this "
            "cell again.")


def install(exercises: Iterable[str]) -> None:
    """Have IPython add the explanation to a NameError that a notebook's cell raises. Does nothing outside IPython, and where
    somebody else handles errors already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or shell.custom_exceptions not in ((), (NameError,)):
        return
    exercises = tuple(exercises)

    def show(shell, kind, error, trace, tb_offset=None):
        # Not an UnboundLocalError, which is a mistake in the cell itself, nor an error inside a package.
        if type(error) is NameError and error.name and is_notebook_cell(traceback.extract_tb(trace)[-1].filename):
            text = explanation(error.name, exercises, shell.user_ns)
            error._render_traceback_ = lambda: [  # type: ignore[attr-defined]  # IPython's hook for errors that show themselves
                *shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset=tb_offset), text]
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    shell.set_custom_exc((NameError,), show)
