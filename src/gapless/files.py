"""Files that appear whole or not at all, and files of others, read with care."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_json(path: str | os.PathLike, value) -> None:
    """Write ``value`` as indented JSON, making the folders on the way. Raises OSError where that cannot be done."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8"))


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Write ``content``; a file that was there keeps its permissions. Raises OSError where that cannot be done."""
    out = Path(path)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        if out.exists():
            with contextlib.suppress(OSError):  # a file of somebody else's, in a folder of ours
                shutil.copymode(out, temporary)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def read_regular(path: str | os.PathLike, limit_bytes: int, follow_links: bool = True, own: bool = False) -> bytes:
    """What is in the file, where it is a regular one of at most ``limit_bytes``; never waits, as for a pipe's other end.

    ``follow_links``: whether ``path`` itself may be a symbolic link. ``own``: only a file of this user's with no second
    name. Raises OSError, with a message in ``strerror``.
    """
    # Absent on Windows, where there is nothing to wait for and links are rare.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if not follow_links:
        if not hasattr(os, "O_NOFOLLOW") and os.path.islink(path):
            raise OSError(errno.ELOOP, "it is a link", os.fspath(path))
        flags |= getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        if own and (found.st_nlink != 1 or os.name == "posix" and found.st_uid != os.geteuid()):
            raise OSError(errno.EPERM, "it is somebody else's file", os.fspath(path))
        content = file.read(limit_bytes + 1)  # it may grow meanwhile
    if len(content) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {limit_bytes / 2**20:.3g} MB", os.fspath(path))
    return content


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A new folder, its path free of links, that is gone afterwards whatever was put into it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            remove_tree(folder)


def remove_tree(folder: str | os.PathLike) -> None:
    """Remove ``folder`` with all that is in it, however deep, long or locked its folders are. Raises OSError.

    :func:`shutil.rmtree` gives up where folders are nested more deeply than Python's stack.
    """
    folder = Path(folder)
    number = itertools.count()
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            # What is in it moves up, under a name that is free: so no path grows long, and nothing calls itself.
            for inner in list(os.scandir(entry.path)):
                place = next(path for n in number if not os.path.lexists(path := folder / f"{n}"))
                if inner.is_dir(follow_symlinks=False):
                    os.chmod(inner.path, 0o700)
                os.rename(inner.path, place)
            os.rmdir(entry.path)
    folder.rmdir()
