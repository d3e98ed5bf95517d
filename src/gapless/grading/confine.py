"""Running the worker where it can do no harm, and ending it for certain.

With bubblewrap (Linux, where it is installed and allowed) the worker sees the interpreter, its libraries, this
package and its own folder, has no network and can write to its own folder only. Everywhere a watchdog here
limits its time, its memory and the number of its processes, and in the end kills its whole process tree.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import importlib.util
import json
import os
import queue
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .worker import BROKEN, FINISHED, READY, TAMPERED

_POLL_SECONDS = 0.02
_WATCH_SECONDS = 0.15
_BOOT = ("import sys; folder, *paths = sys.argv[1:]; sys.path.extend(paths); "
         "from gapless.grading.worker import main; main(folder)")
_KEPT_VARIABLES = ("LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
                   "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "PATHEXT", "COMSPEC")


class GradingError(RuntimeError):
    """Grading itself failed, through no fault of the learner: there is no score. Says what to do next."""


@dataclass(frozen=True)
class Limits:
    """What one exercise's worker may use.

    ``seconds`` count from when the libraries are imported, for which there are ``start_seconds``.
    ``memory_bytes`` come on top of what the libraries take; ``file_bytes`` limit each file it writes.
    """

    seconds: float = 60.0
    start_seconds: float = 180.0
    memory_bytes: int = 4 * 2**30
    file_bytes: int = 256 * 2**20
    processes: int = 16


@dataclass(frozen=True)
class Ending:
    """How a worker ended; ``detail`` is in words.

    ``kind``: ``finished``, ``tampered`` (the learner's code changed the measuring tools), ``timeout``, ``memory``,
    ``processes``, ``ended`` (by itself, before it was finished) or ``broken`` (code of ours raised).
    """

    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Confinement:
    """What keeps the worker in. ``bubblewrap`` is the path of the program, or None."""

    bubblewrap: str | None
    description: str


@functools.cache
def find_confinement() -> Confinement:
    """The strongest confinement that works here; bubblewrap is tried out once."""
    limits = "limits on time, memory, file size and processes"
    if not sys.platform.startswith("linux"):
        return Confinement(None, f"{limits} only (bubblewrap is for Linux)")
    program = shutil.which("bwrap")
    if program is None:
        return Confinement(None, f"{limits} only (bubblewrap is not installed)")
    try:
        trial = [*_bubblewrap(program, None, (), False), "--", sys.executable, "-I", "-S", "-c", "pass"]
        done = subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
        problem = None if done.returncode == 0 else done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    except (OSError, subprocess.SubprocessError) as error:
        problem = [str(error)]
    if problem is not None:
        reason = "".join(problem) or "no reason given"
        return Confinement(None, f"{limits} only (bubblewrap does not work here: {reason})")
    return Confinement(program, "bubblewrap: no network, read-only libraries, nothing else visible, its own "
                                f"temporary folder writable; {limits}")


def run_confined(folder: Path, packages: Sequence[str], device: str, limits: Limits,
                 confinement: Confinement | None = None, stopped: Callable[[], bool] = lambda: False) -> Ending:
    """Run the worker on the job in ``folder`` and wait for it; nothing of it is left when this returns.

    ``packages``: top-level names of what it imports, to be made visible. ``stopped`` is asked from time to time
    whether to give up. Raises GradingError where
    the worker did not get as far as the learner's code.
    """
    try:
        import psutil
    except ImportError:
        raise GradingError("grading needs psutil: pip install 'gapless[grading]'") from None
    confinement = confinement or find_confinement()
    places = [_place(name) for name in packages]
    command = [sys.executable, "-I", "-B", "-c", _BOOT, str(folder), *dict.fromkeys(str(p.parent) for p in places)]
    if confinement.bubblewrap:
        command = [*_bubblewrap(confinement.bubblewrap, folder, places, device.startswith("cuda")), "--", *command]
    token = secrets.token_hex(16)
    (folder / "tmp").mkdir(exist_ok=True)
    try:
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(folder, device), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=os.name == "posix")
    except OSError as error:
        raise GradingError(f"the grading process cannot be started: {error}") from error
    started = time.time()
    words: queue.Queue = queue.Queue()
    errors: list[bytes] = []
    readers = [threading.Thread(target=_listen, args=(process.stdout, token, words), daemon=True),
               threading.Thread(target=_drain, args=(process.stderr, errors), daemon=True)]
    for reader in readers:
        reader.start()
    try:
        with contextlib.suppress(OSError):
            process.stdin.write(token.encode() + b"\n")
            process.stdin.close()
        return _watch(psutil, process, words, limits, stopped, lambda: _last_words(folder, errors))
    finally:
        _end(psutil, process, folder, started, everywhere=confinement.bubblewrap is None)
        for reader in readers:
            reader.join(5)
        for stream in (process.stdout, process.stderr):
            stream.close()


def _watch(psutil, process, words: queue.Queue, limits: Limits, stopped, last_words) -> Ending:
    deadline = time.monotonic() + limits.start_seconds
    ready, baseline, next_look = False, 0, 0.0
    while True:
        try:
            word, text = words.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            word, text = None, ""
        if word == READY:
            ready, deadline = True, time.monotonic() + limits.seconds
            baseline = _tree_use(psutil, process.pid)[0]
        elif word == FINISHED and ready:
            return Ending("finished")
        elif word == TAMPERED and ready:
            return Ending("tampered", text)
        elif word == BROKEN and ready:
            return Ending("broken", text.strip())
        elif word == BROKEN:
            raise GradingError(f"the grading process failed by itself: {text.strip()}")
        elif word == "":  # it has closed its output: gone, or it will never say more
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
            if not ready:
                raise GradingError(f"the grading process did not start ({_status(process)}): {last_words()}")
            return Ending("ended", _status(process))
        if stopped():
            raise GradingError("grading was stopped")
        now = time.monotonic()
        if now > deadline:
            if not ready:
                raise GradingError(f"the grading process took over {limits.start_seconds:g} s to start: {last_words()}")
            return Ending("timeout", f"{limits.seconds:g} s")
        if ready and now > next_look:
            used, count = _tree_use(psutil, process.pid)
            if used > baseline + limits.memory_bytes:
                return Ending("memory", f"{limits.memory_bytes / 2**30:.3g} GiB")
            if count > limits.processes:
                return Ending("processes", str(count))
            next_look = time.monotonic() + _WATCH_SECONDS


def _listen(stream, token: str, words: queue.Queue) -> None:
    """Pass on the worker's own words; whatever else comes is dropped."""
    with contextlib.suppress(OSError, ValueError):
        while line := stream.readline(65536):
            try:
                said, word, text = json.loads(line)
            except (ValueError, TypeError):
                continue
            if said == token and word in (READY, FINISHED, TAMPERED, BROKEN):
                words.put((word, str(text)))
    words.put(("", ""))


def _drain(stream, kept: list[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while block := stream.read1(65536):
            if sum(map(len, kept)) < 65536:
                kept.append(block)


def _last_words(folder: Path, errors: list[bytes]) -> str:
    text = b"".join(errors)
    with contextlib.suppress(OSError):
        text += (folder / "output.txt").read_bytes()[-4000:]
    return text.decode(errors="replace").strip()[-2000:] or "it said nothing"


def _status(process) -> str:
    code = process.poll()
    if code is None:
        return "no exit status"
    # A shell's and bubblewrap's way to say that a signal ended it.
    number = -code if code < 0 else code - 128 if code > 128 else 0
    return f"signal {number}" if number else f"exit status {code}"


def _tree_use(psutil, pid: int) -> tuple[int, int]:
    """Resident memory of the process tree in bytes, and how many processes it is."""
    used = count = 0
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                used += process.memory_info().rss
                count += 1
    return used, count


def _end(psutil, process, folder: Path, started: float, everywhere: bool) -> None:
    """Kill the process, all it started, and what has since cut its ties to it."""
    victims = []
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(process.pid)
        victims = root.children(recursive=True)
    if everywhere:
        for other in psutil.process_iter():
            # A process that has detached itself still carries the folder in its environment.
            with contextlib.suppress(psutil.Error, OSError):
                if other.create_time() >= started - 2 and other.environ().get("GAPLESS_JOB") == str(folder):
                    victims.append(other)
    if process.poll() is None:
        process.kill()
    for victim in victims:
        with contextlib.suppress(psutil.Error):
            victim.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(_is_alive(psutil, victim) for victim in victims):
        time.sleep(_POLL_SECONDS)


def _is_alive(psutil, process) -> bool:
    # A dead process may stay listed until its parent has asked for it: no reason to wait.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _environment(folder: Path, device: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    temporary = str(folder / "tmp")
    if os.name == "posix":
        kept["PATH"] = "/usr/bin:/bin"
    return {"LANG": "C.UTF-8", **kept, "HOME": str(folder), "USERPROFILE": str(folder), "USER": "learner",
            "LOGNAME": "learner", "TMPDIR": temporary, "TEMP": temporary, "TMP": temporary,
            "GAPLESS_DEVICE": device, "GAPLESS_JOB": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


@functools.cache
def _place(name: str) -> Path:
    """The folder or file of a top-level package."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise GradingError(f"{name} cannot be found: is it installed for {sys.executable}?")
    path = Path(spec.origin)
    return path.parent if path.name == "__init__.py" else path


def _bubblewrap(program: str, folder: Path | None, places: Sequence[Path], gpu: bool) -> list[str]:
    """The command that sets up the sandbox. Later lines lie over earlier ones."""
    command = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", "/usr", "/usr"]
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
    if folder is not None:
        command += ["--bind", str(folder / "tmp"), "/tmp"]
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    # The folder of the libraries that need no mention: they lie below a prefix, unless in a person's own.
    visible = dict.fromkeys(str(p) for path in (*map(Path, prefixes), *places) for p in (path, path.resolve()))
    shown: list[str] = ["/usr"]
    for path in sorted(visible, key=len):
        if not any(path == other or path.startswith(other + "/") for other in shown):
            command += ["--ro-bind", path, path]
            shown.append(path)
    if folder is not None:
        command += ["--bind", str(folder), str(folder), "--chdir", str(folder)]
    return [*command, "--remount-ro", "/"]
