"""The line of the user's program that is running: the innermost frame outside PyTorch and this package."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import threading

import torch

_NOTEBOOK_CELL = re.compile(r"ipykernel_\d+|<ipython-input-|^<cell ")
_MARKER = re.compile(r"^\s*#\s*exercise:\s*([A-Za-z_]\w*)\s*$")

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A lesson's slow functions are in the package and are what a learner wants to see named.
_OWN_INNER = tuple(os.path.join(_OWN, part) + os.sep for part in ("vgpu", "grading")) + tuple(
    os.path.join(_OWN, part) for part in ("profile.py", "device.py", "lessons/gather.py".replace("/", os.sep))
)
_SKIP = (os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, sysconfig.get_paths()["stdlib"] + os.sep)
_SITE = os.sep + "site-packages" + os.sep

_user_file: dict[str, bool] = {}
_cell_names: dict[str, str | None] = {}
_host_thread = threading.main_thread().ident


def _is_user_file(filename: str) -> bool:
    known = _user_file.get(filename)
    if known is None:
        if filename.startswith(_OWN + os.sep):
            known = not filename.startswith(_OWN_INNER)
        else:
            library = filename.startswith(_SKIP) and _SITE not in filename or _SKIP[0] in filename
            known = not (library or filename.startswith(("<frozen", "<string", "<__array_function__")))
        _user_file[filename] = known
    return known


def location() -> str | None:
    """``cell "NAME"(4): function`` for an exercise's cell, ``notebook cell(4): function`` for another,
    else ``path/file.py(4): function``: the form of a profiler's ``python_function`` event.

    In a thread of the autograd engine, which has no Python frames of the user's, it is the line that the
    host's thread is at (``loss.backward()``). None when there is none.
    """
    global _host_thread
    found = _innermost(sys._getframe(1))
    here = threading.get_ident()
    if found is not None:
        _host_thread = here
        return found
    if here != _host_thread:
        return _innermost(sys._current_frames().get(_host_thread))
    return None


def _innermost(frame) -> str | None:
    fallback = None
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        if _is_user_file(filename):
            text = f"{display_name(filename)}({frame.f_lineno}): {code.co_name}"
            if _SITE not in filename:
                return text
            fallback = fallback or text  # another library's line, if nobody else's is found
        frame = frame.f_back
    return fallback


def display_name(filename: str) -> str:
    """How a file is shown: an exercise's cell by its name, another cell as ``notebook cell``."""
    if not _NOTEBOOK_CELL.search(filename):
        return filename
    if filename not in _cell_names:
        name = None
        for line in linecache.getlines(filename):
            if line.strip():
                found = _MARKER.match(line)
                name = found.group(1) if found else None
                break
        _cell_names[filename] = name
    name = _cell_names[filename]
    return f'cell "{name}"' if name else "notebook cell"
