"""Running graded code where it can do no harm, and ending it for certain.

With bubblewrap (Linux, where it is installed and allowed) the process sees the interpreter, its libraries and what it is
shown, has no network, and writes to temporary folders of a limited size and to what it is given to write to. Everywhere a
watchdog here limits its time, its memory, its processes and what it writes, and a supervisor (:mod:`.boot`) ends its
whole process tree when it is done, and when this process is gone.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import importlib.util
import json
import os
import queue
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...files import temporary_folder
from ...incoming import clean_text
from .own_time import OwnTime
from .worker import BROKEN, FINISHED, READY

UNCONFINED = "GAPLESS_UNCONFINED"  # the variable that allows grading without a sandbox, where it is 1
_LAST_WORDS_SECONDS = 2.0  # until what an ended process has said has been read, where something holds its output open
_POLL_SECONDS = 0.02
_WATCH_SECONDS = 0.15
_BOOT, _ENCLOSURE = (Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in ("boot", "enclosure"))
_LIBRARY_BYTES = 4 * 2**30  # more private memory than PyTorch with its threads takes, on the CPU
_OPEN_FILES = 1024
_MAIN = "\nif __name__"
# In the sandbox; not /tmp itself, below which lies what it is shown of the real one.
_TEMPORARY = Path("/tmp/scratch")
_SOMEBODY = "1000"
_KEPT_VARIABLES = ("LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
                   "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "PATHEXT", "COMSPEC")


class GradingError(RuntimeError):
    """Grading itself failed, through no fault of the learner: there is no score. Says what to do next."""


@dataclass(frozen=True)
class Limits:
    """What one process of graded code, with all that it starts, may use.

    ``seconds`` count from when it says that it is ready, for which there are ``start_seconds``, and are its own
    (:class:`.own_time.OwnTime`). ``memory_bytes``,
    ``processes`` and ``threads`` come on top of what it has by then. ``file_bytes`` limit each file. On disk it may write
    ``disk_bytes`` in all (in a sandbox deleted files included), and have ``files`` files and folders. Each of the sandbox's
    temporary folders, ``/tmp`` and ``/dev/shm``, holds ``temporary_bytes``; they are memory, on top of ``memory_bytes``.
    """

    seconds: float = 60.0
    start_seconds: float = 180.0
    memory_bytes: int = 4 * 2**30
    file_bytes: int = 256 * 2**20
    processes: int = 48  # two loaders at once, of sixteen workers each, and some more
    threads: int = 1024
    disk_bytes: int = 2**30
    files: int = 1000
    temporary_bytes: int = 256 * 2**20


@dataclass(frozen=True)
class Ending:
    """How the process ended; ``detail`` is in words.

    ``kind``: ``finished``, ``timeout``, ``memory``,
    ``processes``, ``files`` (it wrote too much or too many), ``ended`` (by itself, before it was finished) or ``broken``
    (code of ours raised).
    """

    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Confinement:
    """What keeps graded code in. ``bubblewrap`` is the path of the program, or None.

    ``sized``: it can limit the size of temporary folders (version 0.7). ``sealed``: it can forbid user namespaces (0.8); the
    filter of system calls does too, where there is one.
    """

    bubblewrap: str | None
    description: str
    sized: bool = False
    sealed: bool = False


@functools.cache
def find_confinement() -> Confinement:
    """The strongest confinement that works here; bubblewrap is tried out once."""
    limits, problem = "limits on time, memory, files and processes", None
    if not sys.platform.startswith("linux"):
        return Confinement(None, f"no sandbox (bubblewrap is for Linux), {limits} only")
    program = shutil.which("bwrap")
    if program is None:
        return Confinement(None, f"no sandbox (bubblewrap is not installed), {limits} only")
    try:
        abilities = subprocess.run([program, "--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30,
                                   text=True, check=False).stdout
        # Listed is not yet allowed: not to a setuid bubblewrap, nor on every system.
        for sized, sealed in ((True, True), (True, False), (False, True), (False, False)):
            if (sized and "--size" not in abilities) or (sealed and "--disable-userns" not in abilities):
                continue
            filtered, problem = _try_out(Confinement(program, "", sized, sealed))
            if problem is None:
                break
    except (OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    if problem is not None:
        return Confinement(None, f"no sandbox (bubblewrap does not work here: {problem}), {limits} only")
    lacks = [*(() if sized else ("this bubblewrap cannot limit the size of temporary folders: they lie on the disk, and "
                                 "are watched",)),
             *(() if filtered else ("system calls are not filtered on this machine",)),
             *(() if sealed or filtered else ("it can make user namespaces",))]
    return Confinement(program, "; ".join(["bubblewrap: no network, read-only libraries, nothing else visible, temporary "
                                           "folders writable", *lacks, limits]), sized, sealed)


def _try_out(confinement: Confinement) -> tuple[bool, str | None]:
    """(whether system calls are filtered in it, what is wrong with it)."""
    with _scratch_folder() as scratch:
        script = _BOOT.rpartition(_MAIN)[0] + "\nharden({})\nprint(open('/proc/self/status').read())"
        sandbox = _bubblewrap(confinement, scratch, (), (), (), False, 2**20)
        trial = [*sandbox, "--", sys.executable, "-I", "-S", "-c", script]
        done = subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, text=True, check=False)
    if done.returncode:
        return False, "".join(done.stderr.strip().splitlines()[-1:]) or "no reason given"
    return "\nSeccomp:\t2" in done.stdout, None


@functools.cache
def can_fence(confinement: Confinement) -> bool:
    """Whether processes within the sandbox can be fenced off from each other (:mod:`.enclosure`); tried out once."""
    if confinement.bubblewrap is None or not confinement.sized:
        return False
    fence = fence_of(Limits(), confinement)
    script = (f"for text in {[_ENCLOSURE, _BOOT.rpartition(_MAIN)[0]]!r}: exec(compile(text, 'fence', 'exec'))\n"
              f"enclose(lambda: None, {fence['temporary_bytes']}, {fence['files']}, {fence['folders']})\n"
              f"harden({fence['limits']})\nprint(open('/proc/self/status').read())")
    with _scratch_folder() as scratch, contextlib.suppress(OSError, subprocess.SubprocessError):
        sandbox = _bubblewrap(confinement, scratch, (), (), (), False, 2**20, fenced=True)
        done = subprocess.run([*sandbox, "--", sys.executable, "-I", "-S", "-c", script], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=30, text=True, check=False)
        return not done.returncode and "\nSeccomp:\t2" in done.stdout
    return False


def fence_of(limits: Limits, confinement: Confinement) -> dict:
    """What a forked process needs to know to put up its fence: JSON types, for :func:`.enclosure.enclose` and
    :func:`.boot.harden`."""
    return {"temporary_bytes": limits.temporary_bytes, "files": limits.files, "folders": [str(_TEMPORARY)],
            "limits": _inner_limits(limits, confinement, False)}


def require_confinement(unconfined: bool = False) -> Confinement:
    """The confinement for other people's work: a sandbox; none only where ``unconfined`` or ``GAPLESS_UNCONFINED=1``.

    Raises GradingError where there is none and nothing says so.
    """
    found = find_confinement()
    if found.bubblewrap is None and not unconfined and os.environ.get(UNCONFINED) != "1":
        install = "grade on Linux, on Windows in WSL 2, on macOS in a virtual machine"
        if sys.platform.startswith("linux"):
            install = ("install it (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap), and see what "
                       "gapless doctor says of it")
        raise GradingError(
            f"there is {found.description}. Graded code could then read and change your files, the gradebook included, and "
            f"use the network. Grading needs bubblewrap: {install}. To grade without it, and only for people whom you "
            "would let use your computer: gapless grade --unconfined; for nbgrader c.GradeWithPapermill.unconfined = True; "
            f"everywhere the variable {UNCONFINED}=1")
    return found


def run_confined(module: str, arguments: Sequence[str] = (), *, shown: Sequence[Path] = (), hidden: Sequence[Path] = (),
                 writable: Sequence[Path] = (), pass_fds: Sequence[int] = (), environment: Mapping[str, str] | None = None,
                 gpu: bool = False, limits: Limits = Limits(), confinement: Confinement | None = None,
                 stopped: Callable[[], bool] = lambda: False, fenced: bool = False,
                 started: Callable[[Callable[[], list]], object] = lambda tree: None) -> Ending:
    """Call ``main(*arguments)`` of ``module`` in a confined process; nothing of it is left when this returns.

    Of the file system it sees the interpreter with its installed libraries, and the files and folders ``shown`` and
    ``writable``; the folders that hold what is ``shown`` are where it imports from, before the installed libraries. Of these
    it does not see ``hidden``. It starts in the first folder that is ``writable``; what it writes there outlives it. Better
    name files, made beforehand: each is limited in size by the system itself, and nothing else can come to be beside it.
    A folder is watched, and a fast writer gets some way past a limit. ``pass_fds`` are inherited, under their numbers.
    Without a sandbox all files are visible. ``fenced``: it runs no graded code itself, and puts each process that it forks
    behind a fence of its own, with :func:`fence_of`; see :func:`can_fence`.

    It reads a token from standard input, and says how far it has come in lines of JSON, ``[token, word, text]``, on
    standard output: ``ready`` before it runs graded code, in the end ``finished`` or ``broken``. ``stopped``
    is asked from time to time whether to give up. ``started`` is given a function that lists its processes (psutil's).
    Raises GradingError where it did not get as far as ``ready``.
    """
    try:
        import psutil
    except ImportError:
        raise GradingError("grading needs psutil: pip install 'gapless[grading]'") from None
    confinement = confinement or find_confinement()
    # Links on the way to a place would not be there in the sandbox.
    shown, hidden, writable = ([Path(path).resolve() for path in places] for places in (shown, hidden, writable))
    with _scratch_folder() as scratch:
        in_memory = confinement.bubblewrap is not None and confinement.sized
        temporary = _TEMPORARY if confinement.bubblewrap else scratch / "tmp"
        home = next((path for path in writable if path.is_dir()), temporary)
        todo = {"module": module, "arguments": list(arguments), "search": list(dict.fromkeys(str(p.parent) for p in shown)),
                "limits": None if fenced else _inner_limits(limits, confinement, gpu),
                "closed": confinement.bubblewrap is None, "mark": str(scratch)}
        # As -I, except for the one variable that makes sets of text have the same order each time.
        command = [sys.executable, "-s", "-P", "-B", "-c", _BOOT, "start", json.dumps(todo)]
        if confinement.bubblewrap:
            sandbox = _bubblewrap(confinement, scratch, shown, hidden, writable, gpu, limits.temporary_bytes, home, fenced)
            command = [*sandbox, "--", *command]
        variables = {**_environment(home, temporary, scratch), **(environment or {})}
        cwd = home if confinement.bubblewrap is None else scratch
        process = _Process(psutil, command, cwd, variables, pass_fds, limits, scratch,
                           [*writable, *(() if in_memory else (scratch,))])
        with process:
            started(process.tree)
            return _watch(process, limits, stopped)


@contextlib.contextmanager
def _scratch_folder() -> Iterator[Path]:
    """A folder on disk for what the sandbox cannot hold in memory."""
    with temporary_folder("gapless-scratch-") as folder:
        for name in ("tmp", "shm"):
            (folder / name).mkdir()
        yield folder


def _inner_limits(limits: Limits, confinement: Confinement, gpu: bool) -> dict[str, int | None]:
    """What the process gives up itself, before it runs graded code, and cannot take back. None: no limit."""
    # In a user namespace of its own Linux 5.14 and newer count a user's processes again. Elsewhere all of the user's count.
    counted = confinement.bubblewrap and tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (5, 14)
    return {"NPROC": limits.processes + limits.threads if counted else None,
            # CUDA maps far more memory than it uses.
            "DATA": None if gpu else _LIBRARY_BYTES + limits.memory_bytes}


def _outer_limits(limits: Limits) -> dict[str, int]:
    """What the sandbox and all in it is started with."""
    # A core limit of 0 would still feed a program that the system has for core dumps; of 1 does not.
    return {"CORE": 1, "FSIZE": limits.file_bytes, "NOFILE": _OPEN_FILES,
            "CPU": int(limits.start_seconds + limits.seconds + 60) * (os.cpu_count() or 1)}


@dataclass
class _Use:
    """What a process tree uses: resident bytes, processes, their threads, bytes written to a disk so far."""

    memory: int = 0
    processes: int = 0
    threads: int = 0
    written: int = 0


class _Process:
    """The process, from its start to the end of all that it started. ``words``: what it said, (word, text)."""

    def __init__(self, psutil, command: list[str], cwd: Path, variables: dict[str, str], pass_fds: Sequence[int],
                 limits: Limits, mark: Path, watched: Sequence[Path]):
        self._psutil, self._mark, self._watched = psutil, str(mark), watched
        self._started = time.time()
        self.words: queue.Queue = queue.Queue()
        self._errors: list[bytes] = []
        self._mounts: list[int] = []
        self._lifeline = None
        token = secrets.token_hex(16)
        options: dict = {}
        ours = []
        if os.name == "posix":
            inherited, self._lifeline = os.pipe()
            ours.append(inherited)
            todo = {"command": command, "lifeline": inherited, "fds": list(pass_fds), "limits": _outer_limits(limits)}
            command = [sys.executable, "-I", "-S", "-c", _BOOT, "supervise", json.dumps(todo)]
            options = {"start_new_session": True, "pass_fds": [inherited, *pass_fds]}
        try:
            self._process = subprocess.Popen(command, cwd=cwd, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.PIPE, **options)
        except OSError as error:
            if self._lifeline is not None:
                os.close(self._lifeline)
            raise GradingError(f"the grading process cannot be started: {error}") from error
        finally:
            for fd in ours:
                os.close(fd)
        self._readers = [
            threading.Thread(target=_listen, args=(self._process.stdout, token, self.words), daemon=True),
            threading.Thread(target=_drain, args=(self._process.stderr, self._errors), daemon=True)]
        for reader in self._readers:
            reader.start()
        with contextlib.suppress(OSError):
            self._process.stdin.write(token.encode() + b"\n")
            self._process.stdin.close()

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *exc) -> None:
        try:
            self._end()
        finally:
            for fd in self._mounts:
                os.close(fd)
            for reader, stream in zip(self._readers, (self._process.stdout, self._process.stderr)):
                reader.join(5)
                # Closing would wait for the reader. A process that was forked while this one started may hold the other end.
                if not reader.is_alive():
                    stream.close()

    def is_gone(self) -> bool:
        """Whether it has ended, even where something of it still holds its output open."""
        return self._process.poll() is not None

    def wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def status(self) -> str:
        """How it ended, in words."""
        code = self._process.poll()
        if code is None:
            return "no exit status"
        # A shell's, bubblewrap's and the supervisor's way to say that a signal ended it.
        number = -code if code < 0 else code - 128 if code > 128 else 0
        return f"signal {number}" if number else f"exit status {code}"

    def last_words(self) -> str:
        """What it wrote to standard error last."""
        return clean_text(b"".join(self._errors)[-2000:].decode(errors="replace").strip(), 2000) or "it said nothing"

    def use(self, tree: list) -> _Use:
        """What its tree uses now."""
        found = _Use()
        for process in tree:
            with contextlib.suppress(self._psutil.Error):
                found.memory += process.memory_info().rss
                found.threads += process.num_threads()
                found.processes += 1
                # What has ended counts with the process that collected it.
                with contextlib.suppress(AttributeError):  # not on macOS
                    found.written += process.io_counters().write_bytes
        return found

    def shared_out_memory(self) -> int:
        """Bytes of its tree, where what several processes share (a fork shares all with the one it comes of) counts once.
        As in ``use`` where the system does not tell. Takes milliseconds a process."""
        found = 0
        for process in self.tree():
            with contextlib.suppress(self._psutil.Error):
                size = process.memory_info().rss
                with contextlib.suppress(self._psutil.Error, AttributeError):  # pss: not on macOS
                    size = process.memory_full_info().pss
                found += size
        return found

    def open_mounts(self) -> None:
        """Keep hold of the sandbox's temporary folders in memory, to count what is in them."""
        if not sys.platform.startswith("linux"):
            return
        for process in reversed(self.tree()):
            with contextlib.suppress(OSError):
                root = os.stat(f"/proc/{process.pid}/root/")
                if (root.st_dev, root.st_ino) != (os.stat("/").st_dev, os.stat("/").st_ino):
                    for name in ("tmp", "dev/shm"):
                        self._mounts.append(os.open(f"/proc/{process.pid}/root/{name}", os.O_PATH | os.O_DIRECTORY))
                    return

    def files(self, most: int) -> tuple[int, int]:
        """(files and folders in the watched places and in the sandbox's memory, bytes in the watched places).

        Counts no further than ``most`` files. What cannot be looked into has more.
        """
        count, size = 0, 0
        folders = [path for path in self._watched if path.is_dir()]
        for fd in self._mounts:
            held = os.fstatvfs(fd)
            count += held.f_files - held.f_ffree
        while folders and count <= most:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        count += 1
                        if count > most:
                            break
                        found = entry.stat(follow_symlinks=False)
                        size += found.st_blocks * 512 if os.name == "posix" else found.st_size
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(Path(entry.path))
            except FileNotFoundError:
                continue
            except OSError:
                return most + 1, size
        return count, size

    def _is_marked(self, other) -> bool:
        # The current environment of a process that cannot be looked into is unknown; the one it was started with is not.
        if any(self._mark in each for each in other.cmdline()):
            return True
        return other.environ().get("GAPLESS_JOB") == self._mark

    def tree(self) -> list:
        """It and what it has started."""
        with contextlib.suppress(self._psutil.Error):
            root = self._psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        return []

    def _end(self) -> None:
        """Kill the process, all it started, and what has since cut its ties to it."""
        victims = self.tree()[1:]
        if self._lifeline is not None:
            os.close(self._lifeline)  # the supervisor ends everything, and then itself
            self.wait(12)
        for other in self._psutil.process_iter():
            # Where the supervisor was killed, or orphans do not become its children: they still carry the mark.
            with contextlib.suppress(self._psutil.Error, OSError):
                if other.create_time() >= self._started - 2 and self._is_marked(other):
                    victims.append(other)
        if self._process.poll() is None:
            self._process.kill()
        for victim in victims:
            with contextlib.suppress(self._psutil.Error):
                victim.kill()
        self.wait(10)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and any(_is_alive(self._psutil, victim) for victim in victims):
            time.sleep(_POLL_SECONDS)


def _watch(process: _Process, limits: Limits, stopped: Callable[[], bool]) -> Ending:
    deadline = time.monotonic() + limits.start_seconds
    ready, gone_at, next_look, before, count_before, size_before, spent = False, None, 0.0, _Use(), 0, 0, OwnTime()
    while True:
        try:
            word, text = process.words.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            word, text = None, ""
            if process.is_gone():  # what it has said is on its way
                gone_at = gone_at or time.monotonic()
                word = "" if time.monotonic() > gone_at + _LAST_WORDS_SECONDS else None
        if word == READY and not ready:
            ready, spent = True, OwnTime()
            process.open_mounts()
            before, (count_before, size_before) = process.use(process.tree()), process.files(sys.maxsize)
        elif word == FINISHED and ready:
            return Ending("finished")
        elif word == BROKEN and ready:
            return Ending("broken", text.strip())
        elif word == BROKEN:
            raise GradingError(f"the grading process failed by itself: {text.strip()}")
        elif word == "":  # it has closed its output: gone, or it will never say more
            process.wait(2)
            if not ready:
                raise GradingError(f"the grading process did not start ({process.status()}): {process.last_words()}")
            return Ending("ended", process.status())
        if stopped():
            raise GradingError("grading was stopped")
        now = time.monotonic()
        if not ready and now > deadline:
            raise GradingError(f"the grading process took over {limits.start_seconds:g} s to start: {process.last_words()}")
        if ready and now > next_look:
            tree = process.tree()
            if spent.look(tree) > limits.seconds:
                return Ending("timeout", f"{limits.seconds:g} s")
            ending = _past_limit(process, tree, limits, before, count_before, size_before)
            if ending is not None:
                return ending
            next_look = time.monotonic() + _WATCH_SECONDS


def _past_limit(process: _Process, tree: list, limits: Limits, before: _Use, count_before: int, size_before: int
                ) -> Ending | None:
    use = process.use(tree)
    most = before.memory + limits.memory_bytes
    if use.memory > most and process.shared_out_memory() > most:
        return Ending("memory", f"{limits.memory_bytes / 2**30:.3g} GiB")
    if use.processes > before.processes + limits.processes:
        return Ending("processes", f"{use.processes - before.processes} processes")
    if use.threads > before.threads + limits.threads + limits.processes:
        return Ending("processes", f"{use.threads - before.threads} threads")
    count, size = process.files(count_before + limits.files)
    if count > count_before + limits.files:
        return Ending("files", f"over {limits.files} files")
    if max(size - size_before, use.written - before.written) > limits.disk_bytes:
        return Ending("files", f"over {limits.disk_bytes / 2**30:.3g} GiB")
    return None


def _listen(stream, token: str, words: queue.Queue) -> None:
    """Pass on the worker's own words; whatever else comes is dropped."""
    with contextlib.suppress(OSError, ValueError):
        while line := stream.readline(65536):
            try:
                said, word, text = json.loads(line)
            except (ValueError, TypeError):
                continue
            if said == token and word in (READY, FINISHED, BROKEN):
                words.put((word, str(text)))
    words.put(("", ""))


def _drain(stream, kept: list[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while block := stream.read1(65536):
            if sum(map(len, kept)) < 65536:
                kept.append(block)


def _is_alive(psutil, process) -> bool:
    # A dead process may stay listed until its parent has asked for it: no reason to wait.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _environment(home: Path, temporary: Path, mark: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    if os.name == "posix":
        kept["PATH"] = "/usr/bin:/bin"
    return {"LANG": "C.UTF-8", **kept, "HOME": str(home), "USERPROFILE": str(home), "USER": "learner",
            "LOGNAME": "learner", "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary),
            "GAPLESS_JOB": str(mark), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}


@functools.cache
def place_of(name: str) -> Path:
    """The folder or file of a top-level package, to be ``shown``. Raises GradingError where it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise GradingError(f"{name} cannot be found: is it installed for {sys.executable}?")
    path = Path(spec.origin)
    return path.parent if path.name == "__init__.py" else path


def _bubblewrap(confinement: Confinement, scratch: Path, shown: Sequence[Path], hidden: Sequence[Path],
                writable: Sequence[Path], gpu: bool, temporary_bytes: int, home: Path = _TEMPORARY, fenced: bool = False
                ) -> list[str]:
    """The command that sets up the sandbox. Later lines lie over earlier ones."""
    command = [confinement.bubblewrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if fenced:
        # Linux lets none but root give a namespace root, so it is not root here (user_namespaces(7)).
        command += ["--unshare-user", "--uid", _SOMEBODY, "--gid", _SOMEBODY]
    elif confinement.sealed:
        command += ["--unshare-user", "--disable-userns"]
    # Root's own /proc/sys would be writable, capabilities or not. Making a fence writes to /proc/self, and so does CUDA when
    # it begins: cuInit fails with error 304 where it cannot (driver 580, H100).
    command += ["--proc", "/proc"]
    if gpu:
        for path in sorted(glob.glob("/proc/[!0-9]*")):
            if not os.path.islink(path):
                command += ["--ro-bind-try", path, path]
    elif not fenced:
        command += ["--remount-ro", "/proc"]
    command += ["--dev", "/dev", "--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(name):
            command += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            command += ["--ro-bind", name, name]
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/nix/store", "/gnu/store",
                 "/sys/devices/system/cpu"):
        command += ["--ro-bind-try", name, name]
    if gpu:
        for name in (*sorted(glob.glob("/dev/nvidia*")), "/dev/dxg"):
            command += ["--dev-bind-try", name, name]
        for name in ("/sys", "/etc/nvidia", "/run/nvidia-persistenced", "/opt/cuda"):
            command += ["--ro-bind-try", name, name]
    for name, place in (("tmp", "/tmp"), ("shm", "/dev/shm")):
        command += (["--size", str(temporary_bytes), "--tmpfs", place] if confinement.sized
                    else ["--bind", str(scratch / name), place])
    command += ["--dir", str(_TEMPORARY), "--remount-ro", "/dev"]
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    # The folder of the libraries that need no mention: they lie below a prefix, unless in a person's own.
    visible = dict.fromkeys(str(p) for path in (*map(Path, prefixes), *shown) for p in (path, path.resolve()))
    seen: list[str] = ["/usr"]
    for path in sorted(visible, key=len):
        if not any(path == other or path.startswith(other + "/") for other in seen):
            command += ["--ro-bind", path, path]
            seen.append(path)
    for path in hidden:
        if path.is_dir():
            command += ["--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.exists():
            command += ["--ro-bind", os.devnull, str(path)]
    for path in writable:
        command += ["--bind", str(path), str(path)]
    return [*command, "--chdir", str(home), "--remount-ro", "/"]
