"""The learner's process: what it answers to the device's side, and what it leaves of the learner's reach."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch

from gapless import vgpu
from gapless.course.notebooks.cells import CellError, CellRaised
from gapless.course.plain import Unusable
from gapless.course.stage import Given
from gapless.grading.sandbox.remote import RemoteStage, StageGone
from gapless.grading.sandbox.worker import FINISHED, READY
from gapless.vgpu.boundary.wire import Channel
from gapless.vgpu.hardware.cards.cardfile import card_to_json


class Worker:
    """A learner's process without a sandbox around it."""

    def __init__(self, folder, ask=None):
        self.output = folder / "output.txt"
        ours, theirs = socket.socketpair()
        job = {"channel": theirs.fileno(), "card": card_to_json(vgpu.CARDS["a10g"]), "core": None,
               "names": "gapless.lessons.masked_loss.stage:names", "ask": ask}
        script = f"from gapless.grading.sandbox.worker import main; main({json.dumps(job)!r}, {str(self.output)!r})"
        self.process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        pass_fds=[theirs.fileno()])
        theirs.close()
        print("token", file=self.process.stdin, flush=True)
        self.ready = json.loads(self.process.stdout.readline())
        self.channel = Channel(ours)
        self.stage = RemoteStage(self.channel)

    def asked(self, cell, *inputs):
        """The answer of the cell's function ``f``."""
        self.stage.load(cell, "f")
        call = self.stage.begin(Given({f"x{i}": vgpu.tensor_of(x) for i, x in enumerate(inputs)}))
        call.run()
        return call.finish()

    def end(self):
        self.channel.close()
        said, _ = self.process.communicate(timeout=60)
        return [json.loads(line) for line in said.splitlines()]


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    vgpu.enable(vgpu.CARDS["a10g"])
    worker = Worker(tmp_path_factory.mktemp("worker"))
    yield worker
    worker.process.kill()
    worker.process.communicate()


@pytest.mark.slow
def test_a_function_of_tensors(worker):
    found = worker.asked("def f(x, y):\n    return x * y + 1\n", torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    assert found["result"].within.tolist() == [4, 9] and found["gradients"] == {}
    assert worker.ready == ["token", READY, ""]


def test_the_names_of_the_lesson_are_there_and_no_more(worker):
    found = worker.asked("NAMES = sorted(name for name in globals() if name[0] != '_')\ndef f():\n    raise ValueError(NAMES)\n".replace(
        "raise ValueError(NAMES)", "return NAMES"))
    assert found == {"result": None, "returned": "a list"}
    with pytest.raises(CellRaised, match="BACKGROUND.*CLASSES.*F.*IGNORE.*nn.*torch"):
        worker.asked("NAMES = sorted(globals())\ndef f():\n    raise ValueError(NAMES)\n")


@pytest.mark.parametrize("cell, kind, says", [
    ("def f(:\n", CellError, "does not compile"),
    ("raise SystemExit", CellError, "raised SystemExit"),
    ("def f(x):\n    raise KeyboardInterrupt\n", CellError, "raised KeyboardInterrupt"),
    ("def f(x):\n    return x.nothing\n", CellRaised, r"AttributeError.*line 2: return x.nothing"),
    ("def f(x):\n    return f(x)\n", CellRaised, "RecursionError"),
])
def test_what_is_raised_is_told_and_the_process_goes_on(worker, cell, kind, says):
    with pytest.raises(kind, match=says):
        worker.asked(cell, torch.ones(2))
    assert worker.asked("def f(x):\n    return -x\n", torch.ones(2))["result"].within.tolist() == [-1, -1]


def test_what_is_printed_goes_to_a_file_and_input_is_empty(worker):
    worker.asked("import sys\ndef f(x):\n    print('hello', sys.stdin.read())\n    print('alas', file=sys.stderr)\n    return x\n", torch.ones(1))
    worker.asked("import os\ndef f(x):\n    os.write(1, b'and on')\n    return x\n", torch.ones(1))
    assert "alas" in worker.output.read_text() and "and on" in worker.output.read_text()


@pytest.mark.slow
def test_it_ends_with_the_device_whatever_the_cell_registered(tmp_path):
    worker = Worker(tmp_path, ask="gapless.lessons.profiler_tour.choose_batch_size.stage:ask_batch")
    worker.stage.load("import atexit, threading, time\natexit.register(time.sleep, 1000)\n"
                      "threading.Thread(target=time.sleep, args=(1000,)).start()\ndef f(measure, candidates):\n    return {candidates[0], 2}\n", "f")
    call = worker.stage.begin(Given({}, {"table": {}, "candidates": [4]}))
    call.run()
    with pytest.raises(Unusable, match="a set"):
        call.finish()
    assert worker.end() == [["token", FINISHED, ""]] and worker.process.returncode == 0


def test_where_it_ends_itself_the_device_is_told(tmp_path):
    worker = Worker(tmp_path)
    with pytest.raises(StageGone):
        worker.stage.load("import os\nos._exit(3)\n", "f")
    assert worker.end() == [] and worker.process.returncode == 3


@pytest.mark.slow
def test_what_is_broken_before_the_cell_is_said_to_be_so(tmp_path):
    worker = Worker(tmp_path, ask="gapless.lessons.profiler_tour.stage:no_such_function")
    token, word, text = worker.ready
    assert (token, word) == ("token", "broken") and "no_such_function" in text
    worker.end()
    assert os.path.exists(worker.output)
