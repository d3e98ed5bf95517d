"""The program around graded code, given to a bare interpreter as text: it needs the standard library only.

``supervise`` runs outside the sandbox: it starts the sandbox, and when its lifeline to the grader closes, which it does
however the grader ends, it ends all that was started. ``start`` runs inside: it gives up for good what graded code
has no business with, then calls ``MODULE.main(…)``.

Both get their orders as JSON in the last argument.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import platform
import select
import signal
import struct
import sys
import time

_LINUX = sys.platform == "linux"
_PDEATHSIG, _DUMPABLE, _SECCOMP, _SUBREAPER, _NO_NEW_PRIVILEGES = 1, 4, 22, 36, 38  # of prctl


def supervise(todo: dict) -> None:
    """Run ``command`` until it ends or the pipe ``lifeline`` closes; then end all that is left of it, and exit as it did.

    ``fds`` are for the command alone, as are the standard streams. ``limits``: name of a resource → its limit.
    """
    lifeline = todo["lifeline"]
    os.set_inheritable(lifeline, False)
    # What loses its parent becomes a child of this process, so that nothing can hide by starting again.
    _prctl(_SUBREAPER, 1)
    _prctl(_DUMPABLE, 0)  # without a sandbox its memory could be written to else
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    own = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            _prctl(_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == own:
                for name, value in todo["limits"].items():
                    limit(name, value)
                with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
                    file.write("1000")  # where the machine's memory runs out, this goes first
                os.execv(todo["command"][0], todo["command"])
        except OSError as error:
            os.write(2, f"{todo['command'][0]}: {error}\n".encode())
        os._exit(127)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    for fd in todo["fds"]:
        os.close(fd)
    ended = None
    while ended is None:
        readable, _, _ = select.select([lifeline, waker], [], [])
        if lifeline in readable:
            break
        os.read(waker, 4096)
        ended = _reap(child)
    _end_all(child)
    code = 0 if ended is None else os.waitstatus_to_exitcode(ended)
    os._exit(code if code >= 0 else 128 - code)


def start(todo: dict) -> None:
    """Harden this process and call ``main`` of ``module`` with ``arguments``.

    ``search``: folders to import it from. ``closed``: whether other processes of this user are kept from looking inside;
    where a sandbox does that, the grader is left able to count what is written.
    """
    if todo["closed"]:
        _prctl(_DUMPABLE, 0)
    if todo["limits"] is not None:  # else what it forks gives up what it needs itself
        harden(todo["limits"])
    # Before an installed version of the same, after the standard library.
    place = next((i for i, path in enumerate(sys.path) if path.endswith(("site-packages", "dist-packages"))), len(sys.path))
    sys.path[place:place] = todo["search"]
    if todo["module"]:
        importlib.import_module(todo["module"]).main(*todo["arguments"])


def harden(limits: dict) -> None:
    """Give up what can be given up; for good, and for all that this process starts."""
    if _LINUX:
        machine = _MACHINES.get(platform.machine())
        _prctl(_NO_NEW_PRIVILEGES, 1)
        if machine:
            ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(machine["keyctl"]), 1, None)  # a keyring of its own
    for name, value in limits.items():
        limit(name, value)
    if _LINUX and machine:
        program = _filter(machine, shared_memory=limits.get("DATA") is None)
        code = ctypes.create_string_buffer(program, len(program))
        _prctl(_SECCOMP, 2, ctypes.byref(_Program(len(program) // 8, ctypes.addressof(code))))


def _prctl(option: int, *arguments) -> None:
    if _LINUX:
        values = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
        ctypes.CDLL(None).prctl(option, *values, *[ctypes.c_ulong(0)] * (4 - len(values)))


def limit(name: str, value: int | None) -> None:
    """Limit the resource ``name``, as in RLIMIT_…, for good, for this process and all that it starts. None: no limit."""
    if value is None:
        return
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):  # not every system has each of them
        import resource

        which = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


# -- ending -------------------------------------------------------------------------------------------


def _reap(child: int) -> int | None:
    """Collect what has died; the status of ``child`` where it is among them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, how = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                status = how
    return status


def _end_all(child: int) -> None:
    """Kill until there are no children: the orphans of what is killed become children, and are next."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        for pid in _children():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _children() -> list[int]:
    found, own = [], str(os.getpid())
    if _LINUX:
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                    # The name in brackets may hold anything, brackets too.
                    if file.read().rpartition(b")")[2].split()[1] == own.encode():
                        found.append(int(name))
    return found


# -- the filter of system calls -----------------------------------------------------------------------

# Numbers from Linux's asm/unistd.h. Denied: other processes' memory, keys, mounts and namespaces, parts of the
# kernel that exercises do not need, and shared memory that no limit counts.
_COMMON = {"pidfd_getfd": 438, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
           "move_mount": 429, "fsopen": 430, "mount_setattr": 442, "process_madvise": 440}
_MACHINES = {
    "x86_64": {**_COMMON, "audit": 0xC000003E, "clone": 56, "socket": 41, "prctl": 157, "keyctl": 250, "add_key": 248,
               "request_key": 249, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
               "bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "unshare": 272, "setns": 308, "mount": 165,
               "umount2": 166, "pivot_root": 155, "chroot": 161, "open_by_handle_at": 304, "memfd_create": 319,
               "shmget": 29, "shmat": 30, "msgget": 68, "semget": 64},
    "aarch64": {**_COMMON, "audit": 0xC00000B7, "clone": 220, "socket": 198, "prctl": 167, "keyctl": 219, "add_key": 217,
                "request_key": 218, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
                "bpf": 280, "userfaultfd": 282, "perf_event_open": 241, "unshare": 97, "setns": 268, "mount": 40,
                "umount2": 39, "pivot_root": 41, "chroot": 51, "open_by_handle_at": 265, "memfd_create": 279,
                "shmget": 194, "shmat": 196, "msgget": 186, "semget": 190},
}
_CLONE3, _MEMFD_SECRET = 435, 447
_LOOKED_INTO = ("audit", "clone", "socket", "prctl")  # not denied as such
_SHARED_MEMORY = ("memfd_create", "shmget", "shmat", "msgget", "semget")
_NEW_NAMESPACES = 0x7E020000
_UNWANTED_SOCKETS = (38, 40)  # the kernel's cryptography, and virtual machines' line to their host
_EPERM, _ENOSYS = 1, 38


class _Program(ctypes.Structure):
    """``sock_fprog``: how many instructions, and where they are."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def _filter(machine: dict, shared_memory: bool) -> bytes:
    """A program for the kernel's packet filter that denies some system calls and allows all others."""
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, deny, unknown = 0x7FFF0000, 0x00050000 | _EPERM, 0x00050000 | _ENOSYS
    number, architecture, argument = 0, 4, 16  # offsets in what the filter is shown

    def when(test: int, value: int, then: list) -> list:
        return [(test, 0, len(then), value), *then]

    def returns(value: int) -> tuple:
        return give, 0, 0, value

    code = [(load, 0, 0, architecture), (equal, 1, 0, machine["audit"]), returns(unknown), (load, 0, 0, number)]
    code += when(at_least, 0x40000000, [returns(unknown)])  # x86's second set of numbers
    code += when(equal, _CLONE3, [returns(unknown)])  # its flags cannot be seen from here; C libraries then use clone
    denied = [value for name, value in machine.items() if name not in _LOOKED_INTO]
    if shared_memory:
        denied = [value for value in denied if value not in [machine[name] for name in _SHARED_MEMORY]]
    else:
        denied.append(_MEMFD_SECRET)
    for value in denied:
        code += when(equal, value, [returns(deny)])
    code += when(equal, machine["clone"], [(load, 0, 0, argument), *when(any_bit, _NEW_NAMESPACES, [returns(deny)]),
                                           returns(allow)])
    code += when(equal, machine["socket"], [(load, 0, 0, argument),
                                            *(each for kind in _UNWANTED_SOCKETS
                                              for each in when(equal, kind, [returns(deny)])), returns(allow)])
    code += when(equal, machine["prctl"], [(load, 0, 0, argument), *when(equal, _PDEATHSIG, [returns(deny)]),
                                           *when(equal, _DUMPABLE, [returns(deny)]), returns(allow)])
    code.append(returns(allow))
    return b"".join(struct.pack("=HBBI", *each) for each in code)


if __name__ == "__main__":
    {"supervise": supervise, "start": start}[sys.argv[-2]](json.loads(sys.argv[-1]))
