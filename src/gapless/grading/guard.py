"""What a learner's code may not do while it is being graded.

An audit hook refuses, with a PermissionError that says so, what no exercise needs: files outside the
installed libraries, writing, other processes, the network, frames and traces of the interpreter. It tells the
learner's code by its frames: code from the interpreter's own and the installed libraries is trusted, any
other is not, whatever file name it was compiled under.

This is the inner fence and not a wall. Code in the same interpreter that sets its mind to it finds a way
round; the outer fence (bubblewrap, where there is one) keeps it from the file system and the network all the
same, and the graders read the cell.
"""

from __future__ import annotations

import builtins
import os
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterable
from types import FunctionType

_STARTS_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
                     "os.forkpty", "os.startfile", "os.kill", "os.killpg", "signal.pthread_kill", "_thread.start_new_thread",
                     "_winapi.CreateProcess", "pty.spawn")
_NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
            "socket.gethostbyname", "sqlite3.connect")
_ENVIRONMENT = ("os.putenv", "os.unsetenv")
_WRITES = (*_ENVIRONMENT, "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod",
           "os.chown", "os.truncate", "os.utime", "os.chdir", "os.mkfifo", "os.setxattr")
_INTERPRETER = ("sys.settrace", "sys.setprofile", "sys.addaudithook", "sys._current_frames",
                "gc.get_objects", "gc.get_referrers", "gc.get_referents",
                "ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function",
                "ctypes.string_at", "ctypes.wstring_at", "ctypes.cdata", "ctypes.cdata/buffer",
                "ctypes.PyObj_FromPtr", "builtins.input", "builtins.breakpoint")
_MAKES_CODE = ("code.__new__", "marshal.loads")  # import does this too, on behalf of anyone
_FRAME_ATTRIBUTES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
_READABLE_DEVICES = (os.devnull, "/dev/urandom", "/dev/random")


class Guard:
    """The audit hook. ``libraries``: folders whose code is trusted and whose files may be read,
    beside the interpreter's own. ``refused``: what was refused so far, in words."""

    def __init__(self, libraries: Iterable[str | os.PathLike] = ()):
        paths = sysconfig.get_paths()
        self._stdlib = _folders(paths[name] for name in ("stdlib", "platstdlib"))
        self._installed = _folders([paths["purelib"], paths["platlib"], *libraries])
        # Extension modules and data of an installation lie beside its Python files.
        self._readable = self._stdlib + self._installed + _folders([sys.prefix, sys.base_prefix])
        # Asked for now, as the answer is found by writing there.
        self._temporary = _folders([tempfile.gettempdir()])
        self._kinds: dict[str, str] = {}
        self._busy = threading.local()
        self._ours: set = set()
        self.refused: list[str] = []
        self._rules = dict.fromkeys(_STARTS_PROCESSES, self._process)
        self._rules |= dict.fromkeys(_NETWORK, self._network)
        self._rules |= dict.fromkeys(_WRITES, self._write)
        self._rules |= dict.fromkeys(_INTERPRETER, self._interpreter)
        self._rules |= dict.fromkeys(_MAKES_CODE, self._make_code)
        self._rules |= {"open": self._open, "os.listdir": self._list, "os.scandir": self._list,
                        "compile": self._compile, "sys._getframe": self._getframe,
                        "object.__getattr__": self._getattr, "object.__setattr__": self._setattr,
                        "object.__delattr__": self._setattr}

    def install(self) -> None:
        """Start refusing. Cannot be undone in this process."""
        rules, busy = self._rules, self._busy
        frame = sys._getframe(1)
        while frame is not None:  # what called us is ours, the line that started the interpreter too
            self._ours.add(frame)
            frame = frame.f_back

        def hook(event, args):
            rule = rules.get(event)
            if rule is None or getattr(busy, "now", False):
                return
            busy.now = True
            try:
                rule(event, args, sys._getframe(1))
            finally:
                busy.now = False

        sys.addaudithook(hook)

    def builtins(self) -> dict:
        """Builtins for an exercise cell: an import of this package is refused."""
        real_import = builtins.__import__

        def guarded_import(name, globals=None, locals=None, fromlist=(), level=0):
            if name.split(".")[0] == __name__.split(".")[0]:
                self._refuse(f"import {name}")
            return real_import(name, globals, locals, fromlist, level)

        return {**vars(builtins), "__import__": guarded_import}

    def kind(self, filename: str) -> str:
        """Whose code a file name is: ``stdlib``, ``installed`` or ``learner``."""
        kind = self._kinds.get(filename)
        if kind is None:
            if filename.startswith("<frozen "):
                kind = "stdlib"
            elif filename.startswith("<"):
                kind = "learner"
            else:
                path = os.path.realpath(filename)
                # site-packages may lie inside the standard library's folder: ask for it first.
                kind = ("installed" if _inside(path, self._installed)
                        else "stdlib" if _inside(path, self._stdlib) else "learner")
            self._kinds[filename] = kind
        return kind

    def _on_stack(self, frame) -> bool:
        while frame is not None and frame not in self._ours:
            if self.kind(frame.f_code.co_filename) == "learner":
                return True
            frame = frame.f_back
        return False

    def by_learner(self, frame) -> bool:
        """Whether learner's code made this frame do what it does, directly or through the standard library."""
        return self._caller(frame) == "learner"

    def _caller(self, frame) -> str:
        """Who asked: the standard library does what it is told, so it is looked through."""
        while frame is not None and frame not in self._ours and self.kind(frame.f_code.co_filename) == "stdlib":
            frame = frame.f_back
        return "stdlib" if frame is None or frame in self._ours else self.kind(frame.f_code.co_filename)

    def _refuse(self, what: str) -> None:
        if len(self.refused) < 100:
            self.refused.append(what)
        raise PermissionError(f"refused in an exercise cell: {what}. The function gets all it needs as its arguments")

    def _process(self, event, args, frame):
        if self._on_stack(frame):
            self._refuse(f"starting or stopping processes and threads ({event})")

    def _network(self, event, args, frame):
        if self._on_stack(frame):
            self._refuse(f"connections ({event})")

    def _write(self, event, args, frame):
        if self.by_learner(frame):
            self._refuse(f"changing files or the environment ({event})")
        if event in _ENVIRONMENT or not self._on_stack(frame):
            return
        # A library may keep its caches in the temporary folder on a learner's behalf.
        for path in args:
            if isinstance(path, (str, bytes)) and not _inside(os.path.realpath(os.fsdecode(path)), self._temporary):
                self._refuse(f"changing files ({event} {path})")

    def _interpreter(self, event, args, frame):
        if self.by_learner(frame):
            self._refuse(f"looking into the interpreter ({event})")

    def _make_code(self, event, args, frame):
        if self.kind(frame.f_code.co_filename) == "learner":
            self._refuse(f"making code objects ({event})")

    def _open(self, event, args, frame):
        path, mode, flags = args
        if not self._on_stack(frame):
            return
        if isinstance(path, int):
            if self.by_learner(frame):
                self._refuse("opening a file by its number")
            return
        path = os.path.realpath(os.fsdecode(path))
        writing = (isinstance(mode, str) and any(letter in mode for letter in "wax+")) or (
            isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if path == os.devnull:
            return
        if writing and (self.by_learner(frame) or not _inside(path, self._temporary)):
            self._refuse(f"writing the file {path}")
        if path not in _READABLE_DEVICES and not _inside(path, self._readable + self._temporary):
            self._refuse(f"reading the file {path}")

    def _list(self, event, args, frame):
        if not self._on_stack(frame):
            return
        path = os.getcwd() if not args or args[0] is None else args[0]
        if isinstance(path, int) or not _inside(os.path.realpath(os.fsdecode(path)), self._readable):
            # Import looks into every folder of the path, the working folder included.
            importing = frame.f_code.co_filename.startswith("<frozen importlib")
            if self.by_learner(frame) and not importing:
                self._refuse(f"listing the folder {path}")

    def _compile(self, event, args, frame):
        filename = args[1]
        if isinstance(filename, bytes):
            filename = os.fsdecode(filename)
        if not isinstance(filename, str) or self.kind(frame.f_code.co_filename) != "learner":
            return
        if self.kind(filename) != "learner":
            self._refuse(f"code under another file's name ({filename})")

    def _getframe(self, event, args, frame):
        while frame is not None and os.path.basename(frame.f_code.co_filename) == "inspect.py" \
                and self.kind(frame.f_code.co_filename) == "stdlib":
            frame = frame.f_back
        if frame is not None and self.kind(frame.f_code.co_filename) == "learner":
            self._refuse("looking into the interpreter (frames)")

    def _getattr(self, event, args, frame):
        if args[1] in _FRAME_ATTRIBUTES and self.kind(frame.f_code.co_filename) == "learner":
            self._refuse(f"looking into the interpreter ({args[1]})")

    def _setattr(self, event, args, frame):
        target, name = args[0], args[1]
        if not self.by_learner(frame) or not isinstance(target, FunctionType):
            return
        if self.kind(target.__code__.co_filename) != "learner":
            self._refuse(f"changing {target.__module__}.{target.__qualname__}.{name}")


def _folders(paths) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if path))


def _inside(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)
