"""A check in a process of its own: whatever the cell does, this process goes on."""

import os
import time

import pytest

from gapless.commands.fresh import check_in_fresh_process

from .learner import LESSON, SOLVED

NAME = "ignore_background"
HEAD = f"# exercise: {NAME}\n"


def check(source, limit_s=120, outdated=lambda: False, name=NAME, device="vgpu:a10g"):
    return check_in_fresh_process(LESSON, name, source, device, limit_s, outdated)


def test_a_right_cell_passes_beside_a_file_called_torch(progress_home, tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise RuntimeError('not PyTorch')")
    monkeypatch.chdir(tmp_path)
    found = check(SOLVED)
    assert (found.earned, found.passed, found.reason, found.remark) == (5, True, "", "")


@pytest.mark.slow
def test_the_first_reason_is_told(progress_home):
    found = check(HEAD + "def ignore_background(target):\n    return target\n")
    assert found.earned == 0 and found.reason.startswith("values: On the input")


@pytest.mark.slow
@pytest.mark.parametrize("source, says", [
    ("import os\nos._exit(3)\n", "exit status 3"),
    pytest.param("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "signal 11",
                 marks=pytest.mark.skipif(os.name != "posix", reason="a POSIX signal")),
    ("input()\n", "EOFError"),
    ("import os\nos.write(1, b'noise {')\n1 / 0\n", "ZeroDivisionError"),
])
def test_a_cell_that_ends_the_process_or_disturbs_it(progress_home, source, says):
    found = check(HEAD + source)
    assert not found.passed and says in found.reason


@pytest.mark.slow
def test_an_endless_loop_is_ended(progress_home):
    assert "within 1 s" in check(HEAD + "while True: pass\n", limit_s=1).reason


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_what_the_cell_started_is_ended_too(progress_home, tmp_path):
    mark = tmp_path / "pid"
    source = (f"import os, subprocess, sys\nprocess = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
              f"open({str(mark)!r}, 'w').write(str(process.pid))\nwhile True: pass\n")
    check(HEAD + source, outdated=lambda: mark.exists() and mark.read_text() != "")
    pid, end = int(mark.read_text()), time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as stat:  # ended, and nobody has asked for its status yet
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.1)
    pytest.fail("the child is still there")


@pytest.mark.slow
def test_an_outdated_check_has_no_result(progress_home):
    assert check(HEAD + "while True: pass\n", outdated=lambda: True) is None


@pytest.mark.slow
def test_an_unusable_device_is_told(progress_home):
    found = check(SOLVED, device="gpu9000")
    assert "exit status 2" in found.reason and "no device is called 'gpu9000'" in found.reason
