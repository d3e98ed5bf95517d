"""The fence itself: what a confined process can reach, use up and leave behind. No PyTorch, no lesson."""

import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from gapless.files import remove_tree
from gapless.grading.sandbox import boot, confine
from gapless.grading.sandbox.confine import (
    Confinement,
    GradingError,
    Limits,
    find_confinement,
    require_confinement,
    run_confined,
)

LIMITS_ONLY = Confinement(None, "limits only, for this test")
SANDBOX = find_confinement()
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
sandboxed = pytest.mark.skipif(SANDBOX.bubblewrap is None, reason=SANDBOX.description)
both = pytest.mark.parametrize("confinement", [pytest.param(SANDBOX, marks=sandboxed, id="bubblewrap"),
                                               pytest.param(LIMITS_ONLY, id="limits only")])

# Runs the code it is given, which may leave an answer: the text of "broken" is the one text that comes back.
INMATE = """
import json, os, sys
def main(code):
    token = sys.stdin.readline().strip()
    def say(word, text=""):
        os.write(1, (json.dumps([token, word, text]) + "\\n").encode())
    say("ready")
    names = {"answer": lambda value: say("broken", json.dumps(value))}
    exec(code, names)
    say("finished")
"""


@pytest.fixture
def inmate(tmp_path):
    path = tmp_path / "code" / "inmate.py"
    path.parent.mkdir()
    path.write_text(INMATE)
    return path


@pytest.fixture
def confined(inmate):
    def run(code, confinement=SANDBOX, **options):
        options.setdefault("limits", Limits(seconds=20))
        return run_confined("inmate", [textwrap.dedent(code)], confinement=confinement,
                            shown=[inmate, *options.pop("shown", ())], **options)

    return run


@pytest.fixture
def ask(confined):
    """What the code answered."""
    def run(code, confinement=SANDBOX, **options):
        ending = confined(code, confinement, **options)
        assert ending.kind == "broken", ending
        return json.loads(ending.detail)

    return run


@both
def test_sets_of_text_have_the_same_order_each_time(ask, confinement):
    """Else the same cell could earn other points from the same seed."""
    code = "answer(list({str(i) for i in range(50)}))"
    assert ask(code, confinement) == ask(code, confinement)


# -- reaching ----------------------------------------------------------------------------------------


@both
def test_an_inherited_socket_reaches_the_process(confined, confinement):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"hello")
        code = f"import socket; s = socket.socket(fileno={theirs.fileno()}); s.sendall(s.recv(99)[::-1])"
        ending = confined(code, confinement, pass_fds=[theirs.fileno()])
        theirs.close()
        ours.settimeout(5)
        assert (ending.kind, ours.recv(99)) == ("finished", b"olleh")
        assert ours.recv(99) == b"", "somebody still holds the other end"


@linux
@both
def test_the_other_end_of_a_socket_sees_the_process_go(inmate, confinement):
    """Its supervisor, which outlives it, holds no end of the socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        def closed():
            theirs.close()
            ours.settimeout(0.01)
            try:
                return ours.recv(1) == b""
            except TimeoutError:
                return False

        code = f"import os, time; os.close({theirs.fileno()}); time.sleep(60)"
        with pytest.raises(GradingError, match="stopped"):
            run_confined("inmate", [code], shown=[inmate], confinement=confinement, pass_fds=[theirs.fileno()], stopped=closed)


@both
def test_it_inherits_nothing_else(ask, confinement, tmp_path):
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        # As root /proc/self/fd can be read, dumpable or not; to be sure, numbers are tried out.
        found = ask("import os, stat\nfound = []\nfor fd in range(3, 64):\n    try: found.append(stat.S_IFMT(os.fstat(fd).st_mode))\n"
                    "    except OSError: pass\nanswer(found)", confinement)
    assert found == []


@sandboxed
def test_it_sees_what_it_is_shown_and_not_what_is_hidden_of_it(ask, tmp_path):
    shown, beside = tmp_path / "shown", tmp_path / "beside"
    for path in (shown / "open.txt", shown / "file.txt", shown / "folder" / "inner.txt", beside / "secret.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    look = f"""
        import os
        def see(path):
            try: return open(path).read()
            except OSError as error: return type(error).__name__
        answer([see({str(shown)!r} + each) for each in ("/open.txt", "/file.txt", "/folder/inner.txt")]
               + [os.path.exists({str(beside)!r}), os.path.exists("/etc/passwd"), os.path.exists({str(Path(__file__))!r})])"""
    assert ask(look, shown=[shown]) == ["text"] * 3 + [False] * 3
    assert ask(look, shown=[shown], hidden=[shown / "folder", shown / "file.txt", shown / "none"]) == [
        "text", "PermissionError", "FileNotFoundError"] + [False] * 3


@sandboxed
def test_an_installed_package_can_be_hidden(ask):
    """What lies below the interpreter's prefix is shown, unless it is hidden."""
    place = confine.place_of("psutil")
    look = "import importlib.util as u; s = u.find_spec('psutil'); answer(s is not None and s.origin is not None)"
    assert ask(look) is True
    assert ask(look, hidden=[place]) is False


def test_what_it_is_shown_comes_before_what_is_installed(ask, tmp_path):
    (tmp_path / "mine").mkdir()
    package = tmp_path / "mine" / "psutil"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (tmp_path / "mine" / "json.py").write_text("")
    found = ask("import psutil; import json.decoder; answer(psutil.__file__)", shown=[package])
    assert found == str(package / "__init__.py"), "and the standard library comes first of all"


@both
def test_it_writes_to_what_is_writable(confined, confinement, tmp_path):
    folder, file = tmp_path / "folder", tmp_path / "file.txt"
    folder.mkdir()
    file.touch()
    ending = confined(f"open('note', 'w').write('x'); open({str(file)!r}, 'w').write('y')", confinement, writable=[folder, file])
    assert (ending.kind, (folder / "note").read_text(), file.read_text()) == ("finished", "x", "y")


@sandboxed
def test_it_writes_nowhere_else(ask, inmate):
    places = ["/x", "/dev/x", "/usr/x", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", str(inmate),
              f"{sys.prefix}/x", "/tmp/x", "/dev/shm/x"]
    code = f"""
        import os
        def opens(path):
            try: os.close(os.open(path, os.O_WRONLY | (0 if path.startswith("/proc") else os.O_CREAT)))
            except OSError: return False
            return True
        answer([path for path in {places!r} if opens(path)])"""
    assert ask(code) == ["/tmp/x", "/dev/shm/x"]


@sandboxed
def test_beside_a_gpu_of_proc_only_what_is_its_own_is_writable(ask):
    """CUDA writes to /proc/self when it begins."""
    code = """
        import os
        found = []
        for folder, folders, files in os.walk("/proc"):
            if folder == "/proc":
                folders[:] = [name for name in folders if not name.isdigit()]
            for name in files:
                try: os.close(os.open(f"{folder}/{name}", os.O_WRONLY))
                except OSError: continue
                found.append(f"{folder}/{name}")
        with open("/proc/self/comm", "w") as file: file.write("own")
        answer(found)"""
    assert ask(code, gpu=True) == []


@sandboxed
def test_it_has_no_network_and_sees_no_other_process(ask):
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
            import os, socket
            def connects():
                try: socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 2)
                except OSError: return False
                return True
            answer([connects(), os.getppid(), len([p for p in os.listdir("/proc") if p.isdigit()])])"""
        assert ask(code) == [False, 1, 2]
        assert ask(code, LIMITS_ONLY)[0], "this test could not have failed"


@linux
@both
def test_what_it_has_given_up(ask, confinement):
    code = """
        import ctypes, os, resource
        libc = ctypes.CDLL(None, use_errno=True)
        status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
        def limit(name): return list(resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
        answer({"new privileges": status["NoNewPrivs"], "filter": status["Seccomp"], "capabilities": status["CapEff"].strip("0"),
                "dumpable": libc.prctl(3, 0, 0, 0, 0), "core": limit("CORE"), "files": limit("NOFILE"), "size": limit("FSIZE"),
                "data": limit("DATA")[0] == limit("DATA")[1] > 0, "processor": limit("CPU")[0] > 0})"""
    given_up = ask(code, confinement)
    if confinement.bubblewrap is None:
        given_up.pop("capabilities")  # root's own remain without a sandbox
    assert given_up == {"new privileges": "1", "filter": "2" if boot.platform.machine() in boot._MACHINES else "0",
                        "dumpable": int(confinement.bubblewrap is not None),
                        "core": [1, 1], "files": [1024, 1024], "size": [Limits.file_bytes] * 2, "data": True, "processor": True,
                        **({"capabilities": ""} if confinement.bubblewrap else {})}


@linux
@pytest.mark.skipif(boot.platform.machine() not in boot._MACHINES, reason="no filter for this machine")
@both
def test_denied_system_calls(ask, confinement):
    numbers = {name: value for name, value in boot._MACHINES[boot.platform.machine()].items() if name not in boot._LOOKED_INTO}
    code = f"""
        import ctypes, errno, os, socket
        libc = ctypes.CDLL(None, use_errno=True)
        def call(number, *arguments):
            ctypes.set_errno(0)
            libc.syscall(*[ctypes.c_long(each) for each in (number, *arguments)])
            return errno.errorcode.get(ctypes.get_errno())
        denied = [name for name, number in {numbers!r}.items() if call(number, -1, -1, -1, -1, -1) != "EPERM"]
        def opens(family):
            try: socket.socket(family, socket.SOCK_STREAM)
            except PermissionError: return False
            return True
        answer([denied, call({boot._CLONE3}, 0, 0), call({numbers['unshare']}, 0x10000000),
                call({boot._MACHINES[boot.platform.machine()]['clone']}, 0x10000011, 0), opens(40), opens(socket.AF_UNIX),
                call({boot._MACHINES[boot.platform.machine()]['prctl']}, 1, 0), call({boot._MACHINES[boot.platform.machine()]['prctl']}, 4, 1)])
        """
    assert ask(code, confinement) == [[], "ENOSYS", "EPERM", "EPERM", False, True, "EPERM", "EPERM"]


@linux
@sandboxed
def test_processes_threads_and_pools_work(ask):
    """The filter is not in the way of what programs do."""
    assert ask("""
        import multiprocessing, subprocess, threading, tempfile
        thread = threading.Thread(target=print); thread.start(); thread.join()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            answer([pool.map(abs, [-1, -2]), subprocess.run(["/bin/true"]).returncode, tempfile.gettempdir()])
        """) == [[1, 2], 0, str(confine._TEMPORARY)]


@pytest.mark.parametrize("machine, header", [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")])
def test_numbers_of_system_calls_are_those_of_the_kernel_s_headers(machine, header):
    path = Path("/usr/include") / header
    if not path.is_file():
        pytest.skip(f"no {path} here")
    known = {name: int(number) for name, number in re.findall(r"#define\s+__NR_(\w+)\s+(\d+)", path.read_text())}
    ours = {**boot._MACHINES[machine], "clone3": boot._CLONE3, "memfd_secret": boot._MEMFD_SECRET}
    ours.pop("audit")
    assert {name: known.get(name) for name in ours} == ours


# -- using up ----------------------------------------------------------------------------------------


def _fill(place):
    return f"""
        written = 0
        with open({place!r}, "wb", buffering=0) as file:
            try:
                while True:
                    written += file.write(bytes(2**16))
            except OSError as error:
                answer([error.errno, written])"""


@sandboxed
@pytest.mark.skipif(not SANDBOX.sized, reason=SANDBOX.description)
@pytest.mark.parametrize("place", ["/tmp/big", "/dev/shm/big"])
def test_temporary_folders_are_of_limited_size(ask, place):
    number, written = ask(_fill(place), limits=Limits(seconds=20, temporary_bytes=2**20))
    assert number == 28 and written <= 2**20


@both
def test_a_file_is_of_limited_size(ask, confinement, tmp_path):
    (tmp_path / "big").touch()
    number, written = ask(_fill(str(tmp_path / "big")), confinement, writable=[tmp_path / "big"],
                          limits=Limits(seconds=20, file_bytes=2**20))
    assert number == 27 and written == 2**20


@both
def test_a_disk_is_not_filled_by_many_files(confined, confinement, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    code = """
        import itertools
        for i in itertools.count():
            with open(f"part{i}", "wb") as file:
                file.write(bytes(2**20))"""
    ending = confined(code, confinement, writable=[out], limits=Limits(seconds=20, disk_bytes=20 * 2**20, files=10**6))
    assert (ending.kind, ending.detail) == ("files", "over 0.0195 GiB")


@linux
@sandboxed
def test_a_disk_is_not_filled_by_files_without_a_name(confined, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    if subprocess.run(["stat", "-f", "-c", "%T", out], capture_output=True, text=True, check=True).stdout.strip() == "tmpfs":
        pytest.skip("this folder is in memory")
    code = """
        import os, time
        kept = []
        while True:
            kept.append(open("part", "wb"))
            os.unlink("part")
            kept[-1].write(bytes(2**20))
            kept[-1].flush()
            time.sleep(0.01)"""
    ending = confined(code, writable=[out], limits=Limits(seconds=20, disk_bytes=20 * 2**20, files=10**6))
    assert ending.kind == "files"


FLOODS = {
    "files": "import itertools\nfor i in itertools.count(): open(f'{i}', 'w').close()",
    "one in another": "import os\nwhile True:\n    os.mkdir('x')\n    os.chdir('x')",
    "locked": "import os\nos.mkdir('x')\nos.chmod('x', 0)\nimport time\ntime.sleep(60)",
}


@pytest.mark.slow
@pytest.mark.parametrize("flood", ["files", "one in another",
                                   pytest.param("locked", marks=pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0,
                                                                                   reason="root looks in anyway"))])
def test_floods_of_files_are_stopped(confined, tmp_path, flood):
    out = tmp_path / "out"
    out.mkdir()
    ending = confined(FLOODS[flood], writable=[out], limits=Limits(seconds=20, files=200))
    remove_tree(out)  # which pytest cannot
    assert (ending.kind, ending.detail) == ("files", "over 200 files")


@sandboxed
@pytest.mark.skipif(not SANDBOX.sized, reason=SANDBOX.description)
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_floods_of_files_in_memory_are_stopped(confined, place):
    ending = confined(f"import os; os.chdir({place!r})\n" + FLOODS["files"], limits=Limits(seconds=20, files=200))
    assert (ending.kind, ending.detail) == ("files", "over 200 files")


@both
def test_a_fork_bomb_is_stopped(confined, confinement):
    mark = f"bomb-{time.monotonic_ns()}"
    bomb = f"import os, time  # {mark}\nwhile True:\n    try: os.fork()\n    except OSError: pass\n    time.sleep(0.05)"
    ending = confined(bomb, confinement, limits=Limits(seconds=20, processes=8, memory_bytes=2**40))
    assert ending.kind == "processes"
    assert not _running(mark)


def test_threads_without_end_are_stopped(confined):
    code = "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(60,)).start()\n    except RuntimeError: time.sleep(1)"
    assert confined(code, limits=Limits(seconds=20, threads=100)).kind == "processes"


@linux
@sandboxed
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="Linux does not limit root's processes")
def test_the_system_itself_limits_processes(ask):
    code = "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\nexcept OSError: answer(n)"
    assert ask(code, limits=replace(Limits(), processes=10**6, threads=60 - 10**6)) < 60


@pytest.mark.parametrize("code", ["kept = []\nwhile True: kept.append(b'x' * 2**24)",
                                  "import mmap\nkept = []\nwhile True:\n    kept.append(mmap.mmap(-1, 2**24))\n    kept[-1].write(bytes(2**24))"])
def test_memory_without_end_is_stopped(confined, code):
    ending = confined(code, limits=Limits(seconds=20, memory_bytes=200 * 2**20))
    assert (ending.kind, ending.detail) == ("memory", "0.195 GiB")


@linux
def test_the_limit_of_private_memory_cannot_be_lifted(ask, monkeypatch):
    monkeypatch.setattr(confine, "_LIBRARY_BYTES", 0)
    code = """
        import resource
        try: resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2)
        except (ValueError, OSError): pass
        try: bytes(2**30)
        except MemoryError: answer("refused")"""
    confinement = LIMITS_ONLY if os.geteuid() else SANDBOX  # root lifts its limits, but for in a sandbox
    assert ask(code, confinement, limits=Limits(seconds=20, memory_bytes=2**29)) == "refused"


# -- ending ------------------------------------------------------------------------------------------


def _running(mark):
    return [p for p in psutil.process_iter() if p.pid != os.getpid() and _is_marked(p, mark)]


def _is_marked(process, mark):
    try:
        return process.status() != psutil.STATUS_ZOMBIE and any(mark in each for each in process.cmdline())
    except psutil.Error:
        return False


STAYS = """
import os, signal, time
for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(each, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
time.sleep(200)  # MARK
"""


@pytest.mark.slow
@linux
@both
@pytest.mark.parametrize("gone", ["the grader", "its supervisor"])
def test_nothing_survives_a_killed_grader(inmate, confinement, gone, tmp_path):
    mark = f"stays-{os.getpid()}-{time.monotonic_ns()}"
    script = textwrap.dedent(f"""
        from gapless.grading.sandbox.confine import *
        run_confined("inmate", [{STAYS.replace("MARK", mark)!r}], shown=[{str(inmate)!r}], confinement={confinement!r},
                     limits=Limits(seconds=120))""")
    grader = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        # The grader itself, its supervisor, perhaps bubblewrap twice, and three that stay.
        _wait_for(lambda: len(_running(mark)) >= (7 if confinement.bubblewrap else 5))
        if gone == "the grader":
            grader.kill()
        else:
            psutil.Process(grader.pid).children()[0].kill()
        grader.wait(60)
        _wait_for(lambda: not _running(mark))
    finally:
        grader.kill()
        for process in _running(mark):
            process.kill()


def _wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, [p.info for p in psutil.process_iter(["pid", "ppid", "status"])][-20:]
        time.sleep(0.05)


@linux
@both
def test_what_it_starts_ends_with_it(confined, confinement):
    mark = f"daemon-{time.monotonic_ns()}"
    ending = confined(STAYS.replace("time.sleep(200)", "if os.getpid() != first: time.sleep(200)").replace(
        "import os, signal, time", "import os, signal, time; first = os.getpid()").replace("MARK", mark), confinement)
    assert ending.kind == "finished"
    assert not _running(mark)


@linux
@pytest.mark.skipif(not hasattr(subprocess, "_fork_exec"), reason="where Python starts processes by another function")
def test_a_process_that_was_forked_meanwhile_is_not_waited_for(confined, monkeypatch):
    """As a rank is, by another thread: it has the other ends of all pipes that are open then."""
    forked, fork_exec = [], subprocess._fork_exec

    def both(*arguments):
        child = os.fork()
        if child == 0:
            os.close(arguments[13])  # errpipe_write, by which Popen sees that the other program runs
            time.sleep(120)
            os._exit(0)
        forked.append(child)
        return fork_exec(*arguments)

    monkeypatch.setattr(subprocess, "_fork_exec", both)
    try:
        assert confined("pass").kind == "finished"
    finally:
        for child in forked:
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "it was waited for"
            os.kill(child, 9)
            os.waitpid(child, 0)


@linux
def test_a_signal_and_an_exit_status_come_through(confined):
    assert confined("import os; os.abort()").detail == "signal 6"
    assert confined("import os; os._exit(3)").detail == "exit status 3"


def test_what_does_not_start_says_why(tmp_path):
    with pytest.raises(GradingError, match="(?s)did not start.*No module named 'nowhere'"):
        run_confined("nowhere", limits=Limits(start_seconds=20))


# -- finding -----------------------------------------------------------------------------------------


@linux
def test_without_bubblewrap_grading_is_refused_unless_allowed(monkeypatch, no_bubblewrap):
    with pytest.raises(GradingError, match="(?s)apt install bubblewrap.*--unconfined.*GAPLESS_UNCONFINED=1"):
        require_confinement()
    assert require_confinement(unconfined=True).bubblewrap is None
    monkeypatch.setenv(confine.UNCONFINED, "0")
    with pytest.raises(GradingError):
        require_confinement()
    monkeypatch.setenv(confine.UNCONFINED, "1")
    assert "not installed" in require_confinement().description


@linux
def test_a_bubblewrap_that_does_not_work_is_none(tmp_path, monkeypatch, no_bubblewrap):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_confinement()
    assert found.bubblewrap is None and "No permissions to create new namespace" in found.description


@linux
@sandboxed
@pytest.mark.parametrize("listed", [False, True], ids=["before 0.7", "not allowed"])
def test_a_lesser_bubblewrap_is_used_for_what_it_can(listed, tmp_path, monkeypatch, no_bubblewrap, confined, ask):
    older = tmp_path / "bin" / "bwrap"
    older.parent.mkdir()
    older.write_text(f"""#!/bin/sh
for each in "$@"; do
    case "$each" in
        --) break;;
        --help) {SANDBOX.bubblewrap} --help | grep -v {"nothing" if listed else "-e --size -e --disable-userns"}; exit;;
        --size|--disable-userns) echo "unknown option $each" >&2; exit 1;;
    esac
done
exec {SANDBOX.bubblewrap} "$@"
""")
    older.chmod(0o755)
    monkeypatch.setenv("PATH", f"{older.parent}:/usr/bin:/bin")
    found = find_confinement()
    assert (found.bubblewrap, found.sized, found.sealed) == (str(older), False, False)
    assert "cannot limit the size of temporary folders" in found.description
    assert ask("import os; open('/tmp/x', 'w'); open('/dev/shm/x', 'w'); answer(os.listdir('/dev/shm'))", found) == ["x"]
    ending = confined("import os; os.chdir('/dev/shm')\n" + FLOODS["files"], found, limits=Limits(seconds=20, files=200))
    assert ending.kind == "files"
