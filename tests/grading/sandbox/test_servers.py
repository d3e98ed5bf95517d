"""The processes that others are forked from: kept from one submission to the next, and what one can do to the next then."""

import importlib

import pytest

import gapless
from gapless.course.judge import judge
from gapless.grading.sandbox import servers
from gapless.grading.sandbox.ask import AskAlone, DeviceBehind, Ended
from gapless.grading.sandbox.confine import (
    Confinement,
    GradingError,
    Limits,
    can_fence,
    find_confinement,
    require_confinement,
)

from ..toy import GOOD_DOUBLE, PACKAGE

LESSON = importlib.import_module(PACKAGE).LESSON
EXERCISE = LESSON.exercises["double"]
PLAN = EXERCISE.plan(1)

fenced = pytest.mark.skipif(not can_fence(find_confinement()), reason="no fence within a sandbox here")


def submission(cell, device="vgpu:t4", **limits):
    """A submission of one exercise: (its evidence or why it ended, the process number of the learners' server's sandbox)."""
    gapless.device(device)
    asking = DeviceBehind(LESSON, PACKAGE, device, Limits(**limits), require_confinement(True), lambda: False)
    try:
        try:
            return asking.ask(EXERCISE, PLAN, cell, 1), asking._servers
        except (AskAlone, Ended) as end:
            return end, asking._servers
    finally:
        asking.close()


def is_full(evidence):
    return [verdict.outcome for verdict in judge(EXERCISE, PLAN, evidence)] == ["pass", "pass"]


@pytest.fixture(scope="module")
def kept():
    with servers.keep_servers():
        yield


@pytest.mark.slow
@fenced
def test_they_are_the_same_for_the_next_submission_until_something_else_is_wanted(kept):
    first, one = submission(GOOD_DOUBLE)
    second, two = submission(GOOD_DOUBLE)
    assert one is two and is_full(first) and is_full(second)
    third, other = submission(GOOD_DOUBLE, device="vgpu:a10g")
    assert other is not one and third.device_name == "NVIDIA A10G" and not one.is_good
    assert not one._root.exists()


LEAVES = """
import os, socket, subprocess, sys, tempfile, time
places = [tempfile.gettempdir(), "/tmp", "/dev/shm"]
assert os.getcwd() == places[0]
said = []
for place in places:
    said.append([place, sorted(each for each in os.listdir(place) if each.startswith("left"))])
    open(os.path.join(place, "left"), "w").write("the answer")
others = [each for each in os.listdir("/proc") if each.isdigit()]
seen = []
for each in others:
    try:
        seen.append(open(f"/proc/{each}/cmdline").read())
    except OSError:
        pass
said.append(["running", sum("# left" in each for each in seen)])
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)  # left"], start_new_session=True)
try:
    other = socket.socket(socket.AF_UNIX); other.connect("\\0left"); said.append("a socket")
except OSError:
    keep = socket.socket(socket.AF_UNIX); keep.bind("\\0left"); keep.listen()
assert said == [[places[0], []], ["/tmp", []], ["/dev/shm", []], ["running", 0]], said
""" + GOOD_DOUBLE


@pytest.mark.slow
@fenced
def test_what_one_leaves_the_next_does_not_find(kept):
    for _ in range(3):
        found, _ = submission(LEAVES)
        assert found.error is None and is_full(found), found


KILLS = ["for pid in range(1, 1000):\n    if pid != os.getpid():\n        try: os.kill(pid, 9)\n        except OSError: pass", "os.kill(-1, 9)",
         "os.killpg(0, 9)"]
DENIED = ["open('/proc/1/mem', 'r+b').write(b'x')", "import ctypes; assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0",
          "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0", "open('/proc/sys/kernel/core_pattern', 'w').write('x')",
          "import ctypes; assert ctypes.CDLL(None).mount(b'tmpfs', b'/proc', b'tmpfs', 0, None) == 0",
          "open('/proc/self/oom_score_adj', 'w').write('-1000')", "import numpy; open(numpy.__file__, 'a').write('left = 1')",
          "os.readlink('/proc/%d/fd/0' % min(int(each) for each in os.listdir('/proc') if each.isdigit()))",
          "assert 'CapBnd:\\t0000000000000000' not in open('/proc/self/status').read()"]


@pytest.mark.slow
@fenced
@pytest.mark.parametrize("attack", KILLS + DENIED)
def test_what_one_does_harms_none_that_comes_after(kept, attack):
    _, before = submission(GOOD_DOUBLE)
    found, _ = submission(f"import os\n{attack}\nraise KeyError('done it')\n", seconds=Limits().seconds)
    if attack in DENIED:
        assert "raised" in found.error and "done it" not in found.error
    after, servers_now = submission(GOOD_DOUBLE)
    assert is_full(after) and (servers_now is before or attack in KILLS)  # what was killed has ended badly


@pytest.mark.slow
@fenced
def test_memory_and_processes_are_limited(kept):
    for cell in ("hold = bytearray(b'x') * (6 * 2**30)", "import os\nwhile True:\n    if os.fork() == 0: import time; time.sleep(600)"):
        found, _ = submission(cell, seconds=10, memory_bytes=2**29)
        assert isinstance(found, (AskAlone, Ended)) or found.error is not None
        assert is_full(submission(GOOD_DOUBLE, seconds=10, memory_bytes=2**29)[0])


def test_without_a_fence_nothing_is_kept():
    none = Confinement(None, "no sandbox")
    assert not can_fence(none)
    with servers.keep_servers(), servers.lent(LESSON, PACKAGE, "vgpu:t4", Limits(), none) as one:
        pass
    assert not one.is_good and not one._root.exists()


def test_a_function_that_its_name_does_not_find_is_a_fault_of_the_lesson():
    with pytest.raises(GradingError, match="is no function of a module"):
        servers.place(lambda: None)
    assert servers.place(LESSON.names) == "toylessons.stage:names"
