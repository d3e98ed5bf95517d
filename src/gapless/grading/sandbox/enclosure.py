"""A fence around a forked process: for one that has imported everything, and serves many who must not meet.

What is forked by :func:`enclose` has users, processes, mounts and queues of its own (Linux's namespaces), inside the sandbox
that the server is in already. It can neither signal nor look into the server or what that has forked before, its temporary
folders are new and empty, and when it ends nothing that it started is left. The standard library only: it is tried out by a
bare interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable

_NEW_MOUNTS, _NEW_QUEUES, _NEW_USERS, _NEW_PROCESSES = 0x20000, 0x8000000, 0x10000000, 0x20000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = (
    1, 2, 4, 8, 32, 4096, 16384, 1 << 18)
_PDEATHSIG, _CAPBSET_DROP = 1, 24
_CAPABILITY_VERSION = 0x20080522
_MOST_FILES = 65536
_TEMPORARY = ("/tmp", "/dev/shm")


def enclose(before_fork: Callable[[], None], temporary_bytes: int, files: int, folders: list[str]) -> None:
    """Go on in a process of its own behind the fence, without privileges; this one waits for it, and ends as it does.

    ``before_fork`` is called before each of the two forks. Each of the temporary folders is new, and holds
    ``temporary_bytes`` in ``files`` files; what is shown below them stays; ``folders`` are made in them. Raises OSError
    where the system does not allow it: nothing has been forked then.
    """
    user, group = os.getuid(), os.getgid()
    _call("unshare", _NEW_USERS | _NEW_PROCESSES | _NEW_MOUNTS | _NEW_QUEUES)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    _empty(temporary_bytes, files, folders)
    _mount("none", "/proc", None, _REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)
    before_fork()
    first = os.fork()
    if first:
        _end_as(first)
    _prctl(_PDEATHSIG, signal.SIGKILL)  # with its parent, which may have been killed
    # The first process of a namespace ends all others with it, and collects orphans.
    before_fork()
    second = os.fork()
    if second:
        _end_as(second)
    _drop_privileges()


def _end_as(child: int) -> None:
    """Wait for all children, and exit when ``child`` has, as it did."""
    os.closerange(3, _MOST_FILES)  # else who is at the other end of a socket would not see where ``child`` closes it
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _empty(temporary_bytes: int, files: int, folders: list[str]) -> None:
    """New temporary folders over the old, with what is mounted below those except for what is written to."""
    _mount("none", "/", None, _PRIVATE | _RECURSIVE)  # no mount is seen outside
    kept = []
    for path, writable in _mounts():
        if not writable and any(path.startswith(f"{place}/") for place in _TEMPORARY):
            kept.append((path, os.open(path, os.O_PATH), os.path.isdir(path)))
    for place in _TEMPORARY:
        if os.path.isdir(place):
            _mount("tmpfs", place, "tmpfs", _NO_SETUID | _NO_DEVICES, f"size={temporary_bytes},nr_inodes={files},mode=1777")
    for path, opened, is_folder in kept:
        if is_folder:
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").close()
        _mount(f"/proc/self/fd/{opened}", path, None, _BIND)
        os.close(opened)
    for folder in folders:
        os.makedirs(folder, exist_ok=True)


def _mounts() -> list[tuple[str, bool]]:
    """Where something is mounted, outer ones first, and whether it is writable (proc(5): mountinfo)."""
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields = line.split()
            path = fields[4].decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
            found.append((path, b"rw" in fields[5].split(b",")))
    return found


def _drop_privileges() -> None:
    """All capabilities, also of what it executes."""
    for number in range(64):
        with contextlib.suppress(OSError):  # there are not so many
            _prctl(_CAPBSET_DROP, number)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments) -> None:
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3)


def _mount(source: str, place: str, kind: str | None, flags: int, options: str = "") -> None:
    _call("mount", os.fsencode(source), os.fsencode(place), kind and kind.encode(), ctypes.c_ulong(flags), options.encode())
