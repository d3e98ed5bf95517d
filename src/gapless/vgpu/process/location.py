"""The line of the user's program that is running: the innermost frame outside PyTorch and this package."""

from __future__ import annotations

import _weakrefset
import enum
import linecache
import os
import re
import sys
import sysconfig
import threading
import traceback
import typing
import warnings
import weakref
from functools import cache
from pathlib import Path

import torch
import typing_extensions

from ...marker import exercise_name, file_name

_NOTEBOOK_CELL = re.compile(r"ipykernel_\d+|<ipython-input-|^<cell ")

_OWN = str(Path(__file__).parents[2]) + os.sep
# What this package runs around a learner's functions. A lesson's slow functions are in the package too,
# and are what a learner wants to see named.
MACHINERY = tuple(
    _OWN + part.replace("/", os.sep)
    for part in ("vgpu/", "grading/", "measure/", "course/", "audit/", "garbage.py", "switches.py")
)
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
# Where PyTorch looks for what a device in Python has; what keeps weak references, ours and those to threads, which end when
# they like; what writes down a stack (where there is no CUDA, torch.manual_seed does), which takes as many calls as the
# stack is deep; and what works only where it has forgotten its last result, or said nothing yet: types' parameters, regular
# expressions, warnings.
_UNCOUNTED = (*(_TORCH + part.replace("/", os.sep) for part in (
    "_library/", "_ops.py", "library.py", "_compile.py", "jit/_builtins.py", "utils/_python_dispatch.py",
    "utils/backend_registration.py")),
    weakref.__file__, _weakrefset.__file__, traceback.__file__, linecache.__file__,
    typing.__file__, typing_extensions.__file__, os.path.dirname(re.__file__) + os.sep, enum.__file__, warnings.__file__)
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
# What runs when another process has something to say, or ends: how often depends on real time.
_PROCESSES = (_STDLIB + "multiprocessing" + os.sep, _TORCH + "multiprocessing" + os.sep,
              _TORCH + "utils/data/_utils/signal_handling.py".replace("/", os.sep))
_PACKAGES = tuple(os.sep + folder + os.sep for folder in ("site-packages", "dist-packages"))
_GENERATED = ("<frozen", "<string", "<__array_function__")  # code without a file that is not a cell's

CALLED_AT = "called at "  # between a library's line and the program's, where both are shown


@cache
def is_user_file(filename: str) -> bool:
    """Whether a line of this file may be shown: not PyTorch's, Python's own or this package's machinery."""
    if filename.startswith(_OWN):
        return not filename.startswith(MACHINERY)
    if filename.startswith((_TORCH, *_GENERATED)):
        return False
    return _is_library(filename) or not filename.startswith(_STDLIB)  # packages are often installed inside its folder


def is_program(filename: str) -> bool:
    """Whether what this file's functions do is the program's work, PyTorch's and other libraries' Python included: not this
    package's machinery, nor what PyTorch runs in Python for a device that is written in Python, nor what looks after other
    processes, nor what runs only where nothing is remembered from before."""
    return not filename.startswith((*MACHINERY, *_UNCOUNTED, *_PROCESSES, "<frozen"))


@cache
def _is_library(filename: str) -> bool:
    return not filename.startswith(_OWN) and any(folder in filename for folder in _PACKAGES)


def location() -> str | None:
    """``cell "NAME"(4): function`` for an exercise's cell, ``notebook cell(4): function`` for another,
    else ``path/file.py(4): function``: the form of a profiler's ``python_function`` event.

    None when there is none.
    """
    return line_of(sys._getframe(1))


class _ForwardLines(threading.local):
    """Autograd numbers its nodes in each thread by itself: number of a node → the line whose operator made it."""

    def __init__(self):
        self.lines: dict[int, str] = {}


_forward = _ForwardLines()
_MOST_LINES = 20_000  # more than a step has; a program runs any number of steps


def operator_location() -> str | None:
    """:func:`location` for the operator that is running now; in a backward pass the line of the forward operator,
    with the function called ``backward of NAME``.

    A forward operator's line is known only if this was called for it, in the same thread: on the virtual GPU a backward
    pass runs in the thread that asks for it (:mod:`..ordering.backward_errors`).
    """
    node = torch._C._current_autograd_node()
    if node is not None:
        line = _forward.lines.get(node._sequence_nr())
        if line is None:
            return location()
        place, mark, function = line.partition("): ")
        return f"{place}{mark}backward of {function}"
    found = location()
    if found is not None and torch.is_grad_enabled():
        lines = _forward.lines
        if len(lines) >= _MOST_LINES:
            del lines[next(iter(lines))]  # the oldest
        # A node takes its number just before its operator runs; later operators without a node find it taken.
        lines.setdefault(torch.autograd._get_sequence_nr() - 1, found)
    return found


names_libraries = False  # whether another library's line comes first, with the program's that called it behind it


def line_of(frame) -> str | None:
    """:func:`location` of another frame than the one that asks."""
    fallback = None
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        if is_user_file(filename):
            text = f"{display_name(filename)}({frame.f_lineno}): {code.co_name}"
            if not _is_library(filename):
                if names_libraries and fallback is not None:
                    return f"{fallback}, {CALLED_AT}{display_name(filename)}:{frame.f_lineno}"
                return text
            fallback = fallback or text  # another library's line, if nobody else's is found
        frame = frame.f_back
    return fallback


def split(text: str | None) -> tuple[str, int]:
    """File and line of what :func:`location` gives."""
    place, _, _ = (text or "an unknown line(0): ").partition("): ")
    file, _, line = place.rpartition("(")
    return file, int(line)


def readable(text: str) -> str:
    """``path/file.py(4): step`` as ``path/file.py, line 4, in step``; this package's files from its folder on."""
    file, line = split(text)
    return f"{file.removeprefix(_OWN)}, line {line}, in {text.partition('): ')[2]}"


@cache
def display_name(filename: str) -> str:
    """How a file is shown: an exercise's cell by its name, another cell as ``notebook cell``."""
    if not _NOTEBOOK_CELL.search(filename):
        return filename
    text = "".join(linecache.getlines(filename))
    name = file_name(text) or exercise_name(text)
    return f'cell "{name}"' if name else "notebook cell"


def is_notebook_cell(filename: str) -> bool:
    """Whether code of this file name is a notebook's cell."""
    return bool(_NOTEBOOK_CELL.search(filename))
