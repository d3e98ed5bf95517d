"""The script runs for real: which files that were there it changes, and a copy of the current folder for it to run in."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import torch

from ..files import write_bytes
from .launch import AuditError

MOST_BYTES = 1_000_000_000
_SKIPPED = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_TRUNC


def watch(began_s: float) -> list[str]:
    """From now on, the files as the script changes them, each once; the first is printed at once. For the rest of this
    process: Python takes no audit hook back.

    ``began_s``: when the audit began, in seconds as :func:`time.time` counts. A file changed since is the script's own.
    Caches (in folders whose names begin with a dot, and in the system's temporary folder) are left out. Not seen: what
    functions in C open themselves, except :func:`torch.save`, and what other processes do."""
    found: list[str] = []
    here, temporary, process = os.getcwd(), tempfile.gettempdir(), os.getpid()  # not in the hook: it holds a lock and opens

    def changes(path) -> None:
        shown = _shown(path, here, temporary)
        if shown is None or shown in found or not _is_older(path, began_s):
            return
        found.append(shown)
        if len(found) == 1:
            print(f"gapless audit: the script changes {shown}, which was there before; --scratch runs it in a copy of this "
                  "folder", file=sys.__stderr__, flush=True)

    def hook(event: str, given: tuple) -> None:
        if event not in _PATHS or os.getpid() != process:
            return
        with suppress(OSError, ValueError, TypeError):  # no such file, no path: the script's own business
            for path in _PATHS[event](*given):
                changes(path)

    save = torch.save

    def saving(obj, f, *given, **named):
        if isinstance(f, (str, os.PathLike)):
            hook("open", (f, "w", os.O_WRONLY))  # C++ opens it
        return save(obj, f, *given, **named)

    torch.save = saving
    sys.addaudithook(hook)
    return found


# Audit event of Python → the paths that are changed, from its arguments. Those relative to an open folder (dir_fd) are left
# out: they are of shutil.rmtree, which tells of the whole folder first.
_PATHS: dict[str, Callable[..., list]] = {
    "open": lambda path, mode, flags: [path] if flags & _WRITES else [],
    "os.truncate": lambda path, length: [path],
    "os.remove": lambda path, folder: [path] if folder == -1 else [],
    "os.rename": lambda old, new, old_folder, new_folder: [old, new] if old_folder == new_folder == -1 else [],
    "shutil.rmtree": lambda path, folder: [each for each in Path(os.fsdecode(path)).rglob("*") if each.is_file()],
}


def _is_older(path, began_s: float) -> bool:
    found = os.stat(path)
    return (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) and found.st_ctime < began_s


def _shown(path, here: str, temporary: str) -> str | None:
    """The path from ``here`` on; None for what is no path, and for caches."""
    if isinstance(path, int):
        return None
    path = os.path.abspath(os.fsdecode(path))
    inside = path.startswith(here + os.sep)
    shown = path[len(here) + 1:] if inside else path
    folders = Path(shown).parts[:-1]
    if "__pycache__" in folders or any(each.startswith(".") for each in folders):
        return None
    return shown if inside or not path.startswith(temporary + os.sep) else None


# -- a copy --------------------------------------------------------------------------------------


def copy_folder(source: Path, target: Path) -> None:
    """Copy ``source`` into the new folder ``target``, without version control and virtual environments, and say how much
    that is. Links stay links: what is behind them is not copied, unless it is in ``source``. Raises AuditError where it is
    more than :data:`MOST_BYTES`, or cannot be copied."""
    folders, files, links = _content(source)
    sizes = Counter()
    for path, size in files.items():
        sizes[path.relative_to(source).parts[0]] += size
    total = sizes.total()
    if total > MOST_BYTES:
        largest = ", ".join(f"{name} {size / 1e9:.2g} GB" for name, size in sizes.most_common(3))
        raise AuditError(f"--scratch would copy {total / 1e9:.2g} GB from {source} ({largest}), and copies up to "
                         f"{MOST_BYTES / 1e9:g} GB: move data elsewhere and leave a link to it, which is not followed")
    print(f"gapless audit: --scratch copies {len(files)} files ({total / 1e6:.1f} MB) of {source}; absolute paths and links "
          "still lead to the real ones", file=sys.stderr, flush=True)
    try:
        for folder in folders:
            (target / folder.relative_to(source)).mkdir()
        for path in files:
            shutil.copy2(path, target / path.relative_to(source))
        for path in links:
            goal = Path(os.path.realpath(path))
            os.symlink(target / goal.relative_to(source) if goal.is_relative_to(source) else goal,
                       target / path.relative_to(source))
    except OSError as error:
        raise AuditError(f"--scratch cannot copy {error.filename}: {error.strerror}") from None


def _content(source: Path) -> tuple[list[Path], dict[Path, int], list[Path]]:
    """The folders, from ``source`` on; the files with their bytes; the links."""
    all_folders, files, links = [], {}, []
    for name, folders, names in os.walk(source):
        folder = Path(name)
        all_folders.append(folder)
        links += [folder / each for each in [*folders, *names] if (folder / each).is_symlink()]
        files |= {path: path.stat().st_size for each in names
                  if not (path := folder / each).is_symlink() and path.is_file()}
        folders[:] = [each for each in folders if each not in _SKIPPED and not (folder / each / "pyvenv.cfg").exists()]
    return all_folders, files, [each for each in links if each.name not in _SKIPPED]


def name_as_in(source: Path, target: Path, paths: Iterable[Path]) -> None:
    """In these files, of JSON, paths in the copy ``target`` become those in ``source``."""
    for path in paths:
        if path.exists():
            packed = path.suffix == ".gz"
            text = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
            for as_ascii in (True, False):
                text = text.replace(json.dumps(str(target), ensure_ascii=as_ascii)[1:-1].encode(),
                                    json.dumps(str(source))[1:-1].encode())
            write_bytes(path, gzip.compress(text, mtime=0) if packed else text)
