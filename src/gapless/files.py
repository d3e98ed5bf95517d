"""Files that appear whole or not at all, are read without waiting forever, and are one process's at a time."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_OWNER = ".owner"
_BEGUN_SECONDS = 3600  # a lock takes no longer


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


def write_private(path: str | os.PathLike, content: bytes) -> None:
    """Write ``content`` so that only this user can read it, even if others could read an earlier file there.
    Raises OSError."""
    out = Path(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{out.name[:50]}.", suffix=".tmp", dir=out.parent)  # of mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, out)
    finally:
        Path(temporary).unlink(missing_ok=True)


def between(text: str, begin: str, end: str, content: str) -> str:
    """``text`` with ``content`` between the lines ``begin`` and ``end``. Raises ValueError where ``text`` has them not
    once each and in this order."""
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"the text must have {begin!r} and, below it, {end!r}, each once: put them around what they mark")
    return f"{text[:text.index(begin)]}{begin}\n\n{content}\n\n{text[text.index(end):]}"


def read_regular(path: str | os.PathLike, limit_bytes: int, follow_links: bool = True, own: bool = False) -> bytes:
    """What is in the file, where it is a regular one of at most ``limit_bytes``; never waits, as for a pipe's other end.

    ``follow_links``: whether ``path`` itself may be a symbolic link. ``own``: only a file of this user's with no second
    name. Raises OSError, with a message in ``strerror``.
    """
    # Absent on Windows, where there is nothing to wait for and links are rare.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if not follow_links:
        if os.path.islink(path):
            raise OSError(errno.ELOOP, "it is a link", os.fspath(path))
        flags |= getattr(os, "O_NOFOLLOW", 0)  # it may have become one since
    with open(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        if own and (found.st_nlink != 1 or (os.name == "posix" and found.st_uid != os.geteuid())):
            raise OSError(errno.EPERM, "it is somebody else's file", os.fspath(path))
        content = file.read(limit_bytes + 1)  # it may grow meanwhile
    if len(content) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {limit_bytes / 2**20:.3g} MB", os.fspath(path))
    return content


def check_writable(path: str | os.PathLike) -> None:
    """Raise OSError, with what to do, where :func:`write_bytes` could not write ``path``. Leaves everything as it is."""
    out = Path(path)
    if out.is_dir():
        raise OSError(f"{out} is a folder: name a file in it")
    if not out.absolute().parent.is_dir():
        raise OSError(f"the folder of {out} does not exist: make it, or name another file")
    try:
        with tempfile.TemporaryFile(dir=out.absolute().parent):
            pass
    except OSError as error:
        raise OSError(f"{out} cannot be written ({error.strerror}): name another file") from None


class InUse(RuntimeError):
    """Another process holds the lock; the message says which."""


@contextlib.contextmanager
def locked(path: str | os.PathLike, seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock on the file ``path``, which is made where it is missing, stays, and names its holder.

    The system lets go of it when this process ends, however it ends. Raises InUse where another process, or another user of
    this function in this one, holds it for ``seconds``; OSError where the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    try:
        until = time.monotonic() + seconds
        while not (ours := _lock(descriptor)) and time.monotonic() < until:
            time.sleep(0.1)
        if not ours:
            # On Windows nobody else can read what is locked, so that there may be no name.
            with contextlib.suppress(OSError):
                holder = os.pread(descriptor, 500, 0).decode("utf-8", "replace") if hasattr(os, "pread") else ""
            raise InUse(holder or "another process")
        os.ftruncate(descriptor, 0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}, since {since}".encode())
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]  # Windows has it
        except OSError:
            return False
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def temporary_folder(prefix: str = "gapless-") -> Iterator[Path]:
    """A new folder, its path free of links, that is removed in the end whatever was put into it, and with it those of
    earlier processes that were killed before they could.

    ``prefix`` begins with ``gapless-``.
    """
    _clear_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()  # links on the way would not be there in a sandbox
    try:
        with locked(folder / _OWNER):
            yield folder
    finally:
        with contextlib.suppress(OSError):
            remove_tree(folder)


def _clear_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob("gapless-*"):
        owner = folder / _OWNER
        with contextlib.suppress(OSError, InUse):
            status = folder.lstat()
            ours = stat.S_ISDIR(status.st_mode) and (not hasattr(os, "getuid") or status.st_uid == os.getuid())
            held = owner.stat()
            # An empty file is one whose owner is about to lock it, or was killed before it could.
            if ours and (held.st_size or time.time() - held.st_mtime > _BEGUN_SECONDS):
                with locked(owner):
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
